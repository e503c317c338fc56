package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Program is a command that measures: what its flags say is a C.
type Program[C any] struct {
	Name  string
	Parse func(args []string, w io.Writer) (C, error) // errors have been printed to w
	Run   func(ctx context.Context, c C, out, progress io.Writer) error
	Child func(in io.Reader, out io.Writer) error // what it does in a process that it has started
}

// Status does what the program is for and returns its exit status.
func (p Program[C]) Status() int {
	if Child() {
		return p.said(p.Child(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := p.Parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	return p.said(p.Run(ctx, c, os.Stdout, os.Stderr))
}

// said prints an error, if there is one, and returns the exit status.
func (p Program[C]) said(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, p.Name+":", err)
	return 1
}
