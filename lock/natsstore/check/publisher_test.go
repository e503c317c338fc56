package check

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/renewal"
)

// unansweredMessages is more than the client of NATS lets be without an answer by default.
const unansweredMessages = 4100

// Nobody answers the messages of a batch. The batches that follow must not pay for that.
func TestBatchesAfterUnansweredMessages(t *testing.T) {
	js := testnats.Connect(t, testnats.Start(t))
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	s := openOn(t, js, nil)
	r := driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour}
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)

	require.NoError(t, js.DeleteStream(t.Context(), stream))
	silent, err := js.Conn().SubscribeSync("leasewheel.k.*")
	require.NoError(t, err)
	batch := make([]driver.Lease, unansweredMessages)
	for i := range batch {
		batch[i] = l
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends the call when all messages are on their way
		defer cancel()
		for range batch {
			if _, err := silent.NextMsg(patience); err != nil {
				return
			}
		}
	}()
	out := make([]renewal.Outcome, len(batch))
	require.Error(t, s.Renew(ctx, batch, out))
	require.NoError(t, silent.Unsubscribe())
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	l, err = s.Acquire(t.Context(), r)
	require.NoError(t, err)
	require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out[:1]))
	assert.Equal(t, renewal.Renewed, out[0])
}
