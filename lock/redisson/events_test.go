package redisson

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// A server that restarts without data is a fail-over, because its run_id has changed.
func TestARestartIsTheCauseOfALoss(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	renewed := make(chan struct{}, 1000)
	hooks := &renewal.Hooks{BatchDone: func(renewal.BatchInfo) { renewed <- struct{}{} }}
	client, err := lock.New(newStore(t, srv.Client(t), nil), &lock.Options{
		Terms: lock.Terms{TTL: 5 * time.Second}, Renewal: renewal.Options{Hooks: hooks},
	})
	require.NoError(t, err)
	defer client.Close(t.Context())
	held, err := client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	<-renewed
	srv.Kill()
	require.NoError(t, srv.Restart())
	_, err = client.Inspect(t.Context(), "other") // by a new connection; so the next renewal asks who answers
	require.NoError(t, err)
	<-held.Done()
	var lost *renewal.LostError
	require.ErrorAs(t, held.Err(), &lost)
	assert.Equal(t, renewal.CauseFailover, lost.Cause(), lost.Seen())
}
