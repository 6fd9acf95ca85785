// upload FILE URL [EXPECTATION]: sends a file by PUT with Go's net/http, and prints the status.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	path, url := os.Args[1], os.Args[2]
	file, err := os.Open(path)
	check(err)
	info, err := file.Stat()
	check(err)
	request, err := http.NewRequest("PUT", url, file)
	check(err)
	request.ContentLength = info.Size()
	// Without GetBody net/http cannot follow a 307 and returns it, as its documentation says.
	request.GetBody = func() (io.ReadCloser, error) { return os.Open(path) }
	if len(os.Args) > 3 {
		request.Header.Set("Expect", os.Args[3])
	}
	response, err := http.DefaultClient.Do(request)
	check(err)
	fmt.Println(response.StatusCode)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
