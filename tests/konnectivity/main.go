// Command konnectivity is one multi-call program that holds both ends of
// Konnectivity (apiserver-network-proxy). By the name that it is called with it is
// proxy-server or proxy-agent, each the real thing, imported as a package.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	agent "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app"
	agentoptions "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	server "sigs.k8s.io/apiserver-network-proxy/cmd/server/app"
	serveroptions "sigs.k8s.io/apiserver-network-proxy/cmd/server/app/options"
	"sigs.k8s.io/apiserver-network-proxy/pkg/util"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "proxy-server":
		options := serveroptions.NewProxyRunOptions()
		run(server.NewProxyCommand(&server.Proxy{}, options), options.Flags())
	case "proxy-agent":
		options := agentoptions.NewGrpcProxyAgentOptions()
		run(agent.NewAgentCommand(&agent.Agent{}, options), options.Flags())
	default:
		fmt.Fprintln(os.Stderr, "konnectivity: call it as proxy-server or proxy-agent")
		os.Exit(2)
	}
}

// run runs a command with its own flags and those of klog.
func run(command *cobra.Command, own *pflag.FlagSet) {
	flags := command.Flags()
	flags.AddFlagSet(own)
	logging := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	klog.InitFlags(logging)
	logging.VisitAll(func(one *flag.Flag) {
		one.Name = util.Normalize(one.Name)
		flags.AddGoFlag(one)
	})
	if err := command.Execute(); err != nil {
		klog.ErrorS(err, "it ended")
		klog.Flush()
		os.Exit(1)
	}
}
