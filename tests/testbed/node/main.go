// Command node is one multi-call program that holds what a cluster with real
// nodes needs beside containerd. By the name that it is called with it is
// kubelet, kube-scheduler or kube-controller-manager, each the real thing,
// imported as a package. As "registry" it is a registry that keeps images in
// memory.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"k8s.io/component-base/cli"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "registry":
		if err := serve(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "registry:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "node: call it as kubelet, kube-scheduler, kube-controller-manager or registry")
		os.Exit(2)
	}
}

// serve serves a registry that has an image of each of these programs, with
// nothing else in it.
func serve(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: registry ADDRESS [REPOSITORY:TAG=PROGRAM...]")
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	failure := make(chan error, 1)
	go func() {
		failure <- http.Serve(listener, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	}()
	for _, image := range args[1:] {
		if err := push(args[0], image); err != nil {
			return err
		}
	}
	fmt.Println("listening")
	return <-failure
}

func push(address, image string) error {
	tag, program, found := strings.Cut(image, "=")
	if !found {
		return fmt.Errorf("%q is not REPOSITORY:TAG=PROGRAM", image)
	}
	reference, err := name.ParseReference(address+"/"+tag, name.Insecure)
	if err != nil {
		return err
	}
	made, err := of(program)
	if err != nil {
		return err
	}
	return remote.Write(reference, made)
}

// of makes an image that holds this program, and starts it, to pause unless it
// is told otherwise.
func of(program string) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	title := filepath.Base(program)
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := writer.WriteHeader(&tar.Header{Name: title, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       v1.Config{User: "65532:65532", Entrypoint: []string{"/" + title}, Cmd: []string{"pause"}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}
