// Package adaptertest has what the tests of the adapters share.
package adaptertest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Process is the store of one process. Its Close leaves the store to the other processes.
type Process struct{ *memstore.Store }

// Shutdown implements driver.Store.
func (Process) Shutdown(context.Context) error { return nil }

// NewClient returns a client that is closed at the end of the test or bubble, without terms or with one.
func NewClient(t testing.TB, store driver.Store, terms ...lock.Terms) *lock.Client {
	t.Helper()
	client, err := lock.New(store, &lock.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	for _, one := range terms {
		client = client.With(one)
	}
	return client
}
