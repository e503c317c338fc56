// The main function of a benchmark program.

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

// Program is a benchmark command. C holds the values of its flags.
type Program[C any] struct {
	Name  string
	Parse func(args []string, w io.Writer) (C, error) // prints its errors to w
	Run   func(ctx context.Context, c C, out, progress io.Writer) error
	Child func(in io.Reader, out io.Writer) error // runs instead of Run in a child
}

// Main runs the program and returns its exit status.
func (p Program[C]) Main() int {
	if IsChild() {
		return p.status(p.Child(os.Stdin, os.Stdout))
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
	return p.status(p.Run(ctx, c, os.Stdout, os.Stderr))
}

// status prints err, if there is one, and returns the exit status.
func (p Program[C]) status(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, p.Name+":", err)
	return 1
}
