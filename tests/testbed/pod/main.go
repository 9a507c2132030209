// Command pod is what runs in the pods of the testbed, and in their images: a
// web server, a client, and the process that holds a pod's namespaces. It needs
// no file but itself, and a resolv.conf to look up names.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: pod serve TEXT ADDRESS...  answers every request to each ADDRESS with TEXT
       pod get URL                prints what URL answers
       pod logs DIRECTORY ADDRESS serves the logs of a node's pods, as a kubelet does
       pod pause                  waits until it is told to end`

// patience is how long a request may take.
const patience = 3 * time.Second

func main() {
	switch args := os.Args[1:]; {
	case len(args) > 2 && args[0] == "serve":
		fail("serve", serve(args[1], args[2:]))
	case len(args) == 2 && args[0] == "get":
		fail("get", get(args[1]))
	case len(args) == 3 && args[0] == "logs":
		fail("logs", logs(args[1], args[2]))
	case len(args) == 1 && args[0] == "pause":
		pause()
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
}

func fail(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func serve(text string, addresses []string) error {
	answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
	failures := make(chan error)
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() { failures <- http.Serve(listener, http.HandlerFunc(answer)) }()
	}
	fmt.Println("listening")
	return <-failures
}

// logs answers /containerLogs/NAMESPACE/POD/CONTAINER with the file NAMESPACE_POD.log. API servers
// without an authority for kubelets do not verify its certificate.
func logs(directory, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	answer := func(w http.ResponseWriter, request *http.Request) {
		parts := strings.Split(request.URL.Path, "/")
		if len(parts) != 5 {
			http.NotFound(w, request)
			return
		}
		http.ServeFile(w, request, filepath.Join(directory, parts[2]+"_"+parts[3]+".log"))
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	fmt.Println("listening")
	select {}
}

func get(url string) error {
	client := http.Client{Timeout: patience}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return err
}

// pause also waits for processes that lost their parent: it is the first of a pod.
func pause() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
