//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// child is a command that leasewheel runs in tests, or plays a part of leasewheel. It ends the process.
//
//	signals       prints its pid and each signal; ends with status 7 after SIGTERM
//	stubborn      the same, but does not end
//	family        starts a stubborn process in its group, which ignores Ctrl-Z too, and prints its
//	              pid; ends after SIGTERM
//	orphan        starts such a process and ends at once, with status 3
//	stray, lone   as family and orphan, but the process they start has a group of its own
//	exit N        ends with status N
//	alive PID ... prints whether these processes are alive
//	abandons      starts a command that prints, does not let it begin, and prints its status
func child(args []string) {
	caught := make(chan os.Signal, 100)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	stubborn := false
	switch args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "alive":
		for _, arg := range args[1:] {
			pid, _ := strconv.Atoi(arg)
			state := "dead"
			if alive(pid) {
				state = "alive"
			}
			fmt.Printf("%d=%s\n", pid, state)
		}
		os.Exit(0)
	case "abandons":
		t, err := newTask([]string{"echo", "ran"}, standardStreams())
		if err != nil {
			panic(err)
		}
		p, err := t.start(os.Environ(), catchSignals())
		if err != nil {
			panic(err)
		}
		p.finish()
		<-p.changed
		var state syscall.WaitStatus
		_, err = syscall.Wait4(p.pid, &state, 0, nil)
		fmt.Println(statusOfState(state), err)
		os.Exit(0)
	case "stubborn":
		stubborn = true
	case "family", "orphan", "stray", "lone":
		helper := exec.Command(os.Args[0], childName, "helper")
		helper.Stdout, helper.Stderr = os.Stdout, os.Stderr
		helper.SysProcAttr = &syscall.SysProcAttr{Setpgid: args[0] == "stray" || args[0] == "lone"}
		if err := helper.Start(); err != nil {
			panic(err)
		}
		if args[0] == "orphan" || args[0] == "lone" {
			fmt.Printf("pid=%d\n", os.Getpid())
			os.Exit(3)
		}
	case "helper":
		signal.Ignore(syscall.SIGTSTP)
		fmt.Printf("helper=%d\n", os.Getpid())
		stubborn = true
	}
	if args[0] != "helper" {
		fmt.Printf("pid=%d\n", os.Getpid())
	}
	end := time.After(2 * time.Minute) // no process of a broken test stays
	for {
		select {
		case sig := <-caught:
			fmt.Printf("%s got %v\n", args[0], sig)
			if sig == syscall.SIGTERM && !stubborn {
				os.Exit(7)
			}
		case <-end:
			os.Exit(1)
		}
	}
}
