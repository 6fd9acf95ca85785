# Preset release compiles twenty files of a library, which is a folder or a room of one, at a time (unity batches): a third of
# the processor time of a build file by file, which preset dev does. So no two files of a library may have something of the
# same name in their unnamed namespaces; tests/unit/house_rules_test.cc looks.

# Warnings and sanitizers of our own code: link tarn_options to get them. Access to a guarded member without its mutex is
# an error.
add_library(tarn_options INTERFACE)
target_compile_options(tarn_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Werror=thread-safety)
target_include_directories(tarn_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(tarn_options INTERFACE TARN_VERSION="${PROJECT_VERSION}")

# Released programs go to bin, programs for tests and the tools of tests to test.
set(TARN_RELEASED ${CMAKE_BINARY_DIR}/bin)
set(TARN_TESTING ${CMAKE_BINARY_DIR}/test)

# One object library with the main() of PROGRAM (file main.cc of the caller's folder), linked twice: as it is
# released, and as tests run it, with the fail points that released programs do not have.
function(tarn_node_program program library)
  add_library(${program}-main OBJECT main.cc)
  target_link_libraries(${program}-main PUBLIC ${library})
  target_precompile_headers(${program}-main REUSE_FROM ${library})
  target_compile_options(${program}-main PRIVATE ${TARN_COMPACT})
  add_executable(${program})
  target_link_libraries(${program} PRIVATE ${program}-main tarn_no_fail_points)
  add_executable(${program}-with-fail-points)
  target_link_libraries(${program}-with-fail-points PRIVATE ${program}-main tarn_fail_points)
  set_target_properties(${program}-with-fail-points PROPERTIES
    OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${TARN_TESTING})
endfunction()

# Options for libraries that are not on the path of a read or a write. LLVM inlines functions of up to 225 instructions at -O2; with 25
# it compiles them in two thirds of the time. On that path it costs: 4 KiB GETs took a quarter more processor time.
set(TARN_COMPACT "$<$<CONFIG:Release>:SHELL:-mllvm -inline-threshold=25>")

if(TARN_SANITIZE)
  add_compile_options(-fsanitize=${TARN_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${TARN_SANITIZE})
endif()

find_program(TARN_LLD NAMES ld.lld-19)
if(TARN_LLD)
  add_link_options(-fuse-ld=lld-19)
endif()
