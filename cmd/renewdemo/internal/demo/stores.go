// Building the demo with the stores of databases.

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// stopTimeout is the time that the program has after a signal, to release its locks.
const stopTimeout = 30 * time.Second

// runWithStores builds the program in the folder stores, which can open the stores of databases, runs
// it with args, and returns its exit status. The end of ctx interrupts it. The caller is a program
// without these stores.
func runWithStores(ctx context.Context, args []string) (int, error) {
	folder, err := sourceFolder(ctx)
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "go.mod"))
	}
	if err != nil {
		return 0, interruptedOr(ctx, errors.New("this program has no drivers of databases; run it in a checkout: go run -C cmd/renewdemo/stores . -store URL"))
	}
	dir, err := os.MkdirTemp("", "renewdemo")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	exe := filepath.Join(dir, "renewdemo.exe") // the suffix matters on Windows only
	if err := buildStores(ctx, folder, exe); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	detach(cmd) // a Ctrl-C of the terminal reaches this process only, which passes it on once
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, interruptedOr(ctx, err)
}

// sourceFolder returns the folder of the program with the stores, if this program was built in a checkout.
func sourceFolder(ctx context.Context) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	demo := filepath.Join(filepath.Dir(file), "..", "..")
	if !filepath.IsAbs(file) { // -trimpath leaves the path of the package
		out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", filepath.ToSlash(demo)).Output()
		if err != nil {
			return "", err
		}
		demo = strings.TrimSpace(string(out))
	}
	return filepath.Join(demo, "stores"), nil
}

// buildStores builds the program in folder as exe. The first time, this takes a while.
func buildStores(ctx context.Context, folder, exe string) error {
	fmt.Fprintln(os.Stderr, "building renewdemo with the drivers of databases ...")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", exe, ".")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return interruptedOr(ctx, fmt.Errorf("build the program in %s: %w\n%s", folder, err, out))
	}
	return nil
}
