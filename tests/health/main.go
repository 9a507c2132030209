// Command health says how tools for GitOps see an object, which it reads as JSON from
// its standard input. "health kstatus" computes its status as Flux does. "health argocd
// SCRIPT" runs a health check in Lua, with no more of Lua's library than Argo CD lends it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// health is what is printed, as JSON.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	found, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	}
}

func run(args []string) (*health, error) {
	var object unstructured.Unstructured
	if err := json.NewDecoder(os.Stdin).Decode(&object); err != nil {
		return nil, err
	}
	switch {
	case len(args) == 1 && args[0] == "kstatus":
		return kstatus(&object)
	case len(args) == 2 && args[0] == "argocd":
		return argocd(&object, args[1])
	}
	return nil, errors.New("usage: health kstatus, or health argocd SCRIPT")
}

func kstatus(object *unstructured.Unstructured) (*health, error) {
	result, err := status.Compute(object)
	if err != nil {
		return nil, err
	}
	return &health{Status: result.Status.String(), Message: result.Message}, nil
}

func argocd(object *unstructured.Unstructured, script string) (*health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
	} {
		err := state.CallByParam(lua.P{Fn: state.NewFunction(library.open), Protect: true}, lua.LString(library.name))
		if err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", value(state, object.Object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returned no table: %v", state.Get(-1))
	}
	return &health{
		Status:  lua.LVAsString(table.RawGetString("status")),
		Message: lua.LVAsString(table.RawGetString("message")),
	}, nil
}

// value is a value of JSON as Lua has it.
func value(state *lua.LState, from any) lua.LValue {
	switch from := from.(type) {
	case bool:
		return lua.LBool(from)
	case string:
		return lua.LString(from)
	case int64:
		return lua.LNumber(from)
	case float64:
		return lua.LNumber(from)
	case []any:
		table := state.NewTable()
		for _, one := range from {
			table.Append(value(state, one))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, one := range from {
			table.RawSetString(key, value(state, one))
		}
		return table
	}
	return lua.LNil
}
