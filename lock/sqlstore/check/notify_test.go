package check

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// deafListener is a channel. It wakes nobody.
type deafListener struct {
	name  string
	texts chan string // for which waiters have subscribed
}

func (l deafListener) Channel() string { return l.name }

func (l deafListener) Subscribe(text string, _ func()) func() {
	l.texts <- text
	return func() {}
}

// TestOnlyAListeningWaiterIsNotified listens on the channel of a store while locks are released that
// nobody waits for, and one whose waiter polls. None of that sends a message: the first message is that
// for a waiter that listens.
func TestOnlyAListeningWaiterIsNotified(t *testing.T) {
	for _, pessimistic := range []bool{false, true} {
		d := newPostgres(t)
		listener, err := pgx.Connect(t.Context(), postgres.Get(t).DSN())
		require.NoError(t, err)
		defer func() { assert.NoError(t, listener.Close(t.Context())) }()
		_, err = listener.Exec(t.Context(), "LISTEN "+d.table)
		require.NoError(t, err)
		deaf := deafListener{d.table, make(chan string, 1)}
		listens := d.store(t, sqlstore.Options{Pessimistic: pessimistic, Listener: deaf})
		polls := d.store(t, sqlstore.Options{Pessimistic: pessimistic})

		// wait waits for the lock that another owner holds, and releases it for the waiter.
		wait := func(s *testedStore, key string) (granted chan error) {
			held := acquire(t, listens, request(key))
			granted = make(chan error, 1)
			go func() {
				_, err := s.Wait(t.Context(), request(key), func() {})
				granted <- err
			}()
			require.Eventually(t, func() bool {
				info, err := s.Inspect(t.Context(), key)
				return err == nil && info.Waiting == 1
			}, time.Minute, time.Millisecond)
			require.NoError(t, listens.Release(t.Context(), held))
			return granted
		}

		require.NoError(t, listens.Release(t.Context(), acquire(t, listens, request("k"))))
		require.NoError(t, listens.ReleaseAll(t.Context(), []driver.Lease{acquire(t, listens, request("k"))}, make([]error, 1)))
		acquire(t, listens, request("k"))
		require.NoError(t, listens.ForceRelease(t.Context(), "k"))
		l := acquire(t, listens, request("k"))
		l.Unanswered = true
		require.NoError(t, listens.Release(t.Context(), l))
		l = acquire(t, listens, request("k"))
		l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Millisecond)}
		require.NoError(t, listens.Release(t.Context(), l))
		require.NoError(t, <-wait(polls, "polled"))

		granted := wait(listens, "listened")
		message, err := listener.WaitForNotification(t.Context())
		require.NoError(t, err)
		assert.Equal(t, <-deaf.texts, message.Payload)
		require.NoError(t, <-granted, "it asks from time to time, too")
	}
}
