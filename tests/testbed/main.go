// Command testbed is one multi-call program that holds the programs of a
// Kubernetes control plane. By the name that it is called with it is etcd,
// kube-apiserver, kube-proxy or coredns, each the real thing, imported as a
// package, or kube-controller-manager, which runs ten of the real controllers.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strings"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
)

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": runControllers,
	"kube-proxy":              command(proxy.NewProxyCommand),
	"coredns":                 runCoreDNS,
}

// A fleet lives for a minute or two: memory is cheaper than the collector's time. With Go's own 100 an API server takes a quarter
// more of CPU to start, and with this a third more of memory, 400 MB.
const garbagePercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	name := filepath.Base(os.Args[0])
	run, ok := programs[name]
	if !ok && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
		run, ok = programs[name]
	}
	if !ok {
		names := make([]string, 0, len(programs))
		for known := range programs {
			names = append(names, known)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "testbed: call it as, or with a first argument of, one of: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	run()
}

func command(build func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(build())) }
}

func runCoreDNS() {
	dnsserver.Directives = []string{"bind", "errors", "log", "ready", "cache", "kubernetes"}
	coremain.Run()
}
