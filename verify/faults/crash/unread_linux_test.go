package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// TestNobodyReadsTheLog stops the server until renewals fail, while nobody reads what the holders log about it. That costs no lock
// that the server has.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const keys, lease = 20, 5 * ttl
	n, kept := rounds(1, 20), 0
	played := playRounds(n, func() bool { return kept > 0 }, func(round int) {
		o := order{Role: holder, Addr: server.Addr(), TTL: lease, Mute: true}
		for i := range keys {
			o.Keys = append(o.Keys, fmt.Sprintf("unread %d %d-", round, i)) // nobody waits
		}
		p := start(t, o)
		defer p.kill()
		p.receive(t, new(lockedReport))
		require.NoError(t, server.Stop())
		time.Sleep(lease * 3 / 4) // one try to renew fails
		require.NoError(t, server.Cont())
		time.Sleep(lease)
		p.terminate(t)
		var said closedReport
		p.receive(t, &said)
		assert.Empty(t, said.Err)
		kept += keys - int(said.Lost) //nolint:gosec // at most keys
		p.readErrors(t, "store unavailable")
	})
	report.Add("unread log         %d processes that had %d locks each while the server stood still: %d locks were kept", played, keys, kept)
	assert.Positive(t, kept, "no process kept a lock")
}
