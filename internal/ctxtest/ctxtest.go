// Package ctxtest has a context that shows whether a call leaves anything behind at it.
package ctxtest

import (
	"context"
	"sync/atomic"
)

// Context is a context without an end that counts the functions registered for its end.
type Context struct {
	context.Context
	done       chan struct{}
	registered atomic.Int64
}

// New returns a context without registered functions.
func New() *Context { return &Context{Context: context.Background(), done: make(chan struct{})} }

// Registered returns the number of registered functions.
func (c *Context) Registered() int64 { return c.registered.Load() }

// Done implements context.Context. The channel is never closed.
func (c *Context) Done() <-chan struct{} { return c.done }

// AfterFunc is called by package context, which does so for contexts of other packages.
func (c *Context) AfterFunc(func()) (stop func() bool) {
	c.registered.Add(1)
	return func() bool {
		c.registered.Add(-1)
		return true
	}
}
