"""Ways to break a valid history so that no order explains it any longer.

Each returns True when it has broken the model's history, False when it found no victim there. Why no order can explain
the result is argued where the victims are picked.
"""

import copy

import history
from history import value_bytes


def of_kind(model, kind, status=200, name=None):
    return [op for op in model.ops if op.op == kind and op.status == status and not op.stale
            and (name is None or op.name == name)]


def writes(model, name):
    """Acknowledged PUTs of a name."""
    return of_kind(model, "put", 200, name)


def possible_deletes(model, name):
    return [op for op in model.ops if op.op == "delete" and op.name == name and op.status in (0, 200, 500, 503)]


def ends(op):
    return float("inf") if op.outcome == "unknown" else op.ret


def surely_there(model, name, op):
    """An acknowledged PUT before `op`, and no DELETE that can have come between them."""
    return any(put.ret < op.call and not any(ends(gone) >= put.call and gone.call <= op.ret
                                             for gone in possible_deletes(model, name))
               for put in writes(model, name))


def pick(rng, found):
    found = list(found)
    return rng.choice(found) if found else None


def show(model, op, value):
    op.value = op.etag = None
    op.length, op.etag, op.value, op.status = -1, "", None, 200
    model._answer(op, value)


def show_one(model, rng, victims):
    """Of reads, each with a value that it cannot have seen, one shows it."""
    victim = pick(rng, victims)
    if victim:
        show(model, *victim)
    return bool(victim)


def put_of(model, value):
    return next((op for op in model.ops if op.op == "put" and op.value == value), None)


def stale_read(model, rng):
    """A read sees a value that was overwritten, for certain, before it began."""
    victims = []
    for read in of_kind(model, "get"):
        for old in writes(model, read.name):
            for new in writes(model, read.name):
                if old.ret < new.call and new.ret < read.call:
                    victims.append((read, old.value))
    return show_one(model, rng, victims)


def swapped_reads(model, rng):
    """Of two reads one after the other, the later sees the older value and the earlier the newer."""
    victims = [
        (one, two) for one in of_kind(model, "get") for two in of_kind(model, "get", 200, one.name)
        if one.ret < two.call and one.value != two.value
        and put_of(model, one.value).ret < put_of(model, two.value).call
        and put_of(model, one.value).status == put_of(model, two.value).status == 200
    ]
    victim = pick(rng, victims)
    if victim:
        values = victim[0].value, victim[1].value
        show(model, victim[0], values[1])
        show(model, victim[1], values[0])
    return bool(victim)


def going_back(model, rng):
    """Both reads may overlap the writes; but once the newer value was seen, the older never comes back."""
    victims = [
        (two, old.value) for one in of_kind(model, "get") for two in of_kind(model, "get", 200, one.name)
        for old in writes(model, one.name)
        if one.ret < two.call and old.value != one.value and old.ret < put_of(model, one.value).call
    ]
    return show_one(model, rng, victims)


def dropped_write(model, rng):
    """A client read a value that, by the records, no client wrote."""
    read = pick(rng, of_kind(model, "get"))
    if read:
        model.ops.remove(put_of(model, read.value))
    return bool(read)


def refused_write_is_read(model, rng):
    """A PUT whose value a client saw was answered with a 4xx, which promises no effect."""
    read = pick(rng, of_kind(model, "get"))
    if read:
        put_of(model, read.value).status = 400
    return bool(read)


def deleted_before(model, kind):
    """Reads of a kind, each with a value that was deleted for certain before the read began."""
    return [
        (read, put.value) for read in model.ops if read.op == kind and not read.stale
        for gone in of_kind(model, "delete", 200, read.name) for put in writes(model, read.name)
        if put.ret < gone.call and gone.ret < read.call
    ]


def resurrected(model, rng):
    """A value that was deleted for certain is read again."""
    return show_one(model, rng, deleted_before(model, "get"))


def resurrected_head(model, rng):
    """As `resurrected`, but only a HEAD shows it."""
    return show_one(model, rng, deleted_before(model, "head"))


def lost_write(model, rng):
    """An acknowledged object is answered with 404."""
    victim = pick(rng, (op for op in of_kind(model, "get") + of_kind(model, "head")
                        if surely_there(model, op.name, op)))
    if victim:
        victim.status, victim.value, victim.etag, victim.total, victim.length = 404, None, "", -1, -1
    return bool(victim)


def read_before_write(model, rng):
    victims = [(read, put.value) for read in of_kind(model, "get") for put in writes(model, read.name)
               if read.ret < put.call]
    return show_one(model, rng, victims)


def twice(model, rng):
    """A write with an unknown outcome takes effect a second time, after its value was overwritten."""
    victims = [
        (again, put.value) for put in model.ops if put.op == "put" and put.outcome == "unknown"
        for seen in of_kind(model, "get", 200, put.name) if seen.value == put.value
        for new in writes(model, put.name) if seen.ret < new.call
        for again in of_kind(model, "get", 200, put.name) if new.ret < again.call
    ]
    return show_one(model, rng, victims)


def two_winners(model, rng):
    """If-None-Match: * succeeds although the object was there all the time."""
    victim = pick(rng, (op for op in of_kind(model, "put", 412) if op.if_none_match
                        and surely_there(model, op.name, op)))
    if victim:
        victim.status, victim.etag = 200, model.etag(victim.value)
    return bool(victim)


def refused_for_nothing(model, rng):
    """If-None-Match: * is refused although the name was never written before."""
    victims = [op for op in of_kind(model, "put") if op.if_none_match
               and not any(put.op == "put" and put.name == op.name and put.call <= op.ret and put is not op
                           for put in model.ops)
               and not any(read.value == op.value for read in model.ops if read.op == "get")
               and not any(read.etag == op.etag for read in model.ops if read is not op)]
    victim = pick(rng, victims)
    if victim:
        victim.status, victim.etag = 412, ""
    return bool(victim)


def won_against_the_wrong_version(model, rng):
    """If-Match succeeds with the ETag of a version that was overwritten before the call."""
    victims = [
        (op, old.value) for op in of_kind(model, "put") if not op.if_none_match
        for old in writes(model, op.name) for new in writes(model, op.name)
        if old.ret < new.call and new.ret < op.call
    ]
    victim = pick(rng, victims)
    if victim:
        victim[0].if_match = model.etag(victim[1])
    return bool(victim)


def mark_forgotten(model, rng):
    """A stale answer without its mark, where it is older than a value that was read before."""
    victims = []
    for read in model.ops:
        if read.op == "get" and read.stale and read.status == 200:
            old = put_of(model, read.value)
            if old.status == 200 and any(old.ret < new.call and new.ret < read.call
                                         for new in writes(model, read.name)):
                victims.append(read)
    victim = pick(rng, victims)
    if victim:
        victim.stale = False
    return bool(victim)


def mixed_body(model, rng):
    victim = pick(rng, of_kind(model, "get"))
    if victim:
        other = next(model.values)
        body = bytearray(value_bytes(victim.value, victim.length))
        place = rng.randrange(0, victim.length // 8) * 8
        chunk = value_bytes(other, victim.length)[place : place + 8]
        if body[place : place + 8] == chunk:  # the number of a block is the same in all values
            place, chunk = 0, value_bytes(other, 8)
        body[place : place + 8] = chunk
        history.describe_body(victim, bytes(body))
        if victim.value is not None and not victim.wrong:
            return False
    return bool(victim)


def short_body(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "get") if op.length > 1))
    if victim:
        victim.length -= 1
    return bool(victim)


def header_of_another_version(model, rng):
    """Body of one version, ETag of another."""
    victims = [(read, put) for read in of_kind(model, "get") for put in writes(model, read.name)
               if put.value != read.value and put_of(model, read.value).status == 200]
    victim = pick(rng, victims)
    if victim:
        victim[0].etag = victim[1].etag
    return bool(victim)


def length_of_another_version(model, rng):
    victim = pick(rng, of_kind(model, "get") + of_kind(model, "head"))
    if victim:
        victim.total += 1
    return bool(victim) and (victim.op == "get" or put_of_etag(model, victim) is not None)


def put_of_etag(model, op):
    return next((put for put in writes(model, op.name) if put.etag == op.etag), None)


def of_another_name(model, rng):
    """The bytes of one object under the name of another."""
    victims = [(one, two.value) for one in of_kind(model, "get") for two in of_kind(model, "get") if one.name != two.name]
    return show_one(model, rng, victims)


def list_lacks(model, rng):
    """A list lacks an acknowledged name that no client deleted."""
    victims = [(op, entry) for op in of_kind(model, "list") for entry in op.names
               if surely_there(model, entry[0], op)]
    victim = pick(rng, victims)
    if victim:
        victim[0].names.remove(victim[1])
    return bool(victim)


def list_shows_the_deleted(model, rng):
    """A list shows a name after its DELETE, with no PUT that could have brought it back."""
    victims = []
    for op in of_kind(model, "list"):
        for name in model.names:
            if name in [entry[0] for entry in op.names]:
                continue
            gone = [delete for delete in of_kind(model, "delete", 200, name) if delete.ret < op.call]
            puts = [put for put in model.ops if put.op == "put" and put.name == name
                    and put.status in (0, 200, 500, 503)]
            if gone and all(any(ends(put) < delete.call for delete in gone) or put.call > op.ret for put in puts):
                sizes = [put.length for put in puts if put.status == 200]
                if sizes:
                    victims.append((op, name, sizes[0]))
    victim = pick(rng, victims)
    if victim:
        op, name, size = victim
        op.names = sorted([*op.names, [name, size, None]])
    return bool(victim)


def list_shows_the_unborn(model, rng):
    victims = [(op, name) for op in of_kind(model, "list") for name in model.names
               if not any(put.op == "put" and put.name == name and put.call <= op.ret for put in model.ops)]
    victim = pick(rng, victims)
    if victim:
        victim[0].names = sorted([*victim[0].names, [victim[1], None, None]])
    return bool(victim)


def list_shows_the_invented(model, rng):
    victim = pick(rng, of_kind(model, "list"))
    if victim:
        victim.names = sorted([*victim.names, ["zz-nobody-wrote-this", 5, None]])
    return bool(victim)


def list_doubles(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "list") if op.names))
    if victim:
        place = rng.randrange(len(victim.names))
        victim.names = victim.names[: place + 1] + victim.names[place:]
    return bool(victim)


def list_is_out_of_order(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "list") if len(op.names) > 1))
    if victim:
        victim.names = victim.names[::-1]
    return bool(victim)


def list_has_the_wrong_size(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "list") if op.names))
    if victim:
        victim.names = copy.deepcopy(victim.names)
        victim.names[0][1] = 77_777
    return bool(victim)


def final_list_differs(model, rng):
    entry = pick(rng, model.listed.names)
    if entry:
        model.listed.names.remove(entry)
    return bool(entry)


def final_head_differs(model, rng):
    name = pick(rng, (name for name, (get, _) in model.found.items() if get.status == 200))
    if name:
        head = model.found[name][1]
        head.status, head.etag, head.total = 404, "", -1
    return bool(name)


def final_get_fails(model, rng):
    """At the end there is no excuse for an object that cannot be read."""
    name = pick(rng, (name for name, (get, _) in model.found.items() if get.status == 200))
    if name:
        get = model.found[name][0]
        get.status, get.value, get.etag, get.length = 503, None, "", -1
    return bool(name)


MUTATIONS = [
    stale_read, swapped_reads, going_back, dropped_write, refused_write_is_read, resurrected, resurrected_head,
    lost_write, read_before_write, twice, two_winners, refused_for_nothing, won_against_the_wrong_version,
    mark_forgotten, mixed_body, short_body, header_of_another_version, length_of_another_version, of_another_name,
    list_lacks, list_shows_the_deleted, list_shows_the_unborn, list_shows_the_invented, list_doubles,
    list_is_out_of_order, list_has_the_wrong_size, final_list_differs, final_head_differs, final_get_fails,
]
