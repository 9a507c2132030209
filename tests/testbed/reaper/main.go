// Command reaper starts the programs of a testbed and outlives whoever asked for
// them by just as long as it takes to end them. It reads one JSON request a line from
// its standard input and answers with one JSON line on its standard output. When its
// input ends, however the asking process ended, it kills what it started, waits, and
// undoes what it was told to undo: removes directories, runs commands.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// The time that ended programs, and each command of the clean-up, are given.
const patience = 10 * time.Second

type request struct {
	ID     uint64  `json:"id"`
	Start  *start  `json:"start"`
	Signal *raise  `json:"signal"`
	Undo   *undo   `json:"undo"`
	Forget *uint64 `json:"forget"`
}

// start begins a program; the request's id is the program's from then on.
type start struct {
	Program     string            `json:"program"`
	Args        []string          `json:"args"`
	Environment map[string]string `json:"environment"`
	Directory   string            `json:"directory"`
	Stdin       string            `json:"stdin"`
	Stdout      string            `json:"stdout"`
	Stderr      string            `json:"stderr"`
}

// raise sends a signal to a running program.
type raise struct {
	Program uint64 `json:"program"`
	Number  int    `json:"number"`
}

// undo is done at the end, the latest first, unless its request's id is forgotten.
type undo struct {
	id     uint64
	Remove string   `json:"remove"`
	Run    []string `json:"run"`
}

type answer struct {
	ID     uint64 `json:"id,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Error  string `json:"error,omitempty"`
	Exited uint64 `json:"exited,omitempty"`
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
}

type reaper struct {
	running map[uint64]*exec.Cmd
	exits   chan answer
	undos   []undo
}

func main() {
	// A child's death signal fires when the thread that started it ends; the main thread never does.
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)

	k := &reaper{running: map[uint64]*exec.Cmd{}, exits: make(chan answer)}
	requests := make(chan request)
	go read(requests)
	for {
		select {
		case r, open := <-requests:
			if !open {
				k.end()
				return
			}
			reply(k.do(r))
		case e := <-k.exits:
			delete(k.running, e.Exited)
			reply(e)
		case <-terminated:
			k.end()
			return
		}
	}
}

func read(requests chan<- request) {
	defer close(requests)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "reaper: a request that cannot be read:", err)
			return
		}
		requests <- r
	}
}

func reply(a answer) {
	// The asking process may be gone: then the end of the input follows.
	_ = json.NewEncoder(os.Stdout).Encode(a)
}

func (k *reaper) do(r request) answer {
	a := answer{ID: r.ID}
	var err error
	switch {
	case r.Start != nil:
		a.PID, err = k.start(r.ID, r.Start)
	case r.Signal != nil:
		err = k.signal(r.Signal)
	case r.Undo != nil:
		r.Undo.id = r.ID
		k.undos = append(k.undos, *r.Undo)
	case r.Forget != nil:
		k.forget(*r.Forget)
	default:
		err = fmt.Errorf("nothing is asked for")
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (k *reaper) start(id uint64, s *start) (int, error) {
	cmd := exec.Command(s.Program, s.Args...)
	cmd.Dir = s.Directory
	cmd.Env = os.Environ()
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	opened, err := redirect(cmd, s)
	defer func() {
		for _, f := range opened {
			f.Close()
		}
	}()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	k.running[id] = cmd
	go func() { k.exits <- ended(id, cmd.Wait(), cmd) }()
	return cmd.Process.Pid, nil
}

func redirect(cmd *exec.Cmd, s *start) ([]*os.File, error) {
	var opened []*os.File
	open := func(path string, flags int) (*os.File, error) {
		f, err := os.OpenFile(path, flags, 0o600)
		if err == nil {
			opened = append(opened, f)
		}
		return f, err
	}
	const appending = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if s.Stdin != "" {
		f, err := open(s.Stdin, os.O_RDONLY)
		if err != nil {
			return opened, err
		}
		cmd.Stdin = f
	}
	f, err := open(s.Stdout, appending)
	if err != nil {
		return opened, err
	}
	cmd.Stdout, cmd.Stderr = f, f
	if s.Stderr != s.Stdout {
		if cmd.Stderr, err = open(s.Stderr, appending); err != nil {
			return opened, err
		}
	}
	return opened, nil
}

func ended(id uint64, failure error, cmd *exec.Cmd) answer {
	a := answer{Exited: id, Code: -1}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		a.Signal = int(status.Signal())
	} else {
		a.Code = cmd.ProcessState.ExitCode()
	}
	if _, exited := failure.(*exec.ExitError); failure != nil && !exited {
		a.Error = failure.Error()
	}
	return a
}

func (k *reaper) signal(s *raise) error {
	cmd, ok := k.running[s.Program]
	if !ok {
		return fmt.Errorf("program %d is not running", s.Program)
	}
	return cmd.Process.Signal(syscall.Signal(s.Number))
}

func (k *reaper) forget(id uint64) {
	kept := k.undos[:0]
	for _, u := range k.undos {
		if u.id != id {
			kept = append(kept, u)
		}
	}
	k.undos = kept
}

func (k *reaper) end() {
	for _, cmd := range k.running {
		// A group of its own: what the program itself started goes too.
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			fmt.Fprintf(os.Stderr, "reaper: cannot end %s: %v\n", cmd.Path, err)
		}
	}
	deadline := time.After(patience)
	for len(k.running) > 0 {
		select {
		case e := <-k.exits:
			delete(k.running, e.Exited)
		case <-deadline:
			fmt.Fprintf(os.Stderr, "reaper: %d programs do not end\n", len(k.running))
			k.running = nil
		}
	}
	for i := len(k.undos) - 1; i >= 0; i-- {
		if err := k.undos[i].undo(); err != nil {
			fmt.Fprintln(os.Stderr, "reaper:", err)
		}
	}
}

func (u undo) undo() error {
	if u.Remove != "" {
		return os.RemoveAll(u.Remove)
	}
	deadline, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	output, err := exec.CommandContext(deadline, u.Run[0], u.Run[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", u.Run, err, output)
	}
	return nil
}
