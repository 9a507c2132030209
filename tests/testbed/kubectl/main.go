// Command kubectl is kubectl alone: in one program with the others it would initialize their
// packages too, at each of its thousands of runs.
package main

import (
	"os"
	"runtime/debug"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() {
	// It ends before a collection would pay.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
}
