package lock_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// logJSON returns the attribute x of a record of the JSON handler.
func logJSON(t *testing.T, x any) string {
	t.Helper()
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "x", x)
	var record struct{ X json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(out.String()), &record))
	return string(record.X)
}

func marshalled(t *testing.T, x any) string {
	t.Helper()
	out, err := json.Marshal(x)
	require.NoError(t, err)
	return string(out)
}

// The kinds of locks show what they name, in texts, logs and JSON.
func TestLocksArePrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, l := range []struct {
			lock       any
			text, json string
		}{
			{b.Mutex("k"), `mutex "k"`, `{"kind":"mutex","key":"k"}`},
			{b.RWMutex("k"), `rwmutex "k"`, `{"kind":"rwmutex","key":"k"}`},
			{b.Reentrant("k"), `reentrant "k"`, `{"kind":"reentrant","key":"k"}`},
			{b.Semaphore("k", 3), `semaphore "k" of 3 permits`, `{"kind":"semaphore","key":"k","limit":3}`},
			{b.Batch("k", "a", "b"), `batch "k" of 2 members`, `{"kind":"batch","key":"k","members":2}`},
			{b.Election("k", "me"), `election "k" for "me"`, `{"kind":"election","key":"k","name":"me"}`},
			{(*lock.Mutex)(nil), `mutex ""`, `{"kind":"mutex","key":""}`},
			{(*lock.Batch)(nil), `batch ""`, `{"kind":"batch","key":""}`},
			{(*lock.Election)(nil), `election ""`, `{"kind":"election","key":""}`},
			{(*lock.Semaphore)(nil), `semaphore ""`, `{"kind":"semaphore","key":""}`},
			{(*lock.RWMutex)(nil), `rwmutex ""`, `{"kind":"rwmutex","key":""}`},
			{(*lock.Reentrant)(nil), `reentrant ""`, `{"kind":"reentrant","key":""}`},
		} {
			assert.Equal(t, l.text, fmt.Sprint(l.lock))
			assert.Equal(t, l.text, fmt.Sprintf("%+v", l.lock))
			assert.Equal(t, "lock: "+l.text, fmt.Sprintf("%#v", l.lock))
			assert.JSONEq(t, l.json, logJSON(t, l.lock))
			if !strings.HasSuffix(l.text, `""`) { // encoding/json writes null for a nil pointer
				assert.JSONEq(t, l.json, marshalled(t, l.lock))
			}
		}
	})
}

func TestAMultiIsPrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		assert.Equal(t, `multi of mutex "a", semaphore "b" of 2 permits`, fmt.Sprint(lock.Multi(b.Mutex("a"), b.Semaphore("b", 2))))
		assert.Equal(t, `multi of <nil>`, fmt.Sprint(lock.Multi(nil)))
	})
}

// A handle shows key, token and deadline, and then why it is not held. The owner is never
// shown.
func TestAHandleIsPrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		multi := lock.Multi(b.Mutex("x"), b.Mutex("y"))
		for _, l := range []lock.Locker{b.Mutex("k"), b.Batch("k2", "a"), b.Semaphore("k3", 2), multi} {
			held, err := l.Lock(t.Context())
			require.NoError(t, err)
			want := fmt.Sprintf(`{"key":%q,"token":%d,"deadline":%q}`, held.Key(), held.Token(), held.Deadline().Format("2006-01-02T15:04:05.999999999Z07:00"))
			assert.JSONEq(t, want, logJSON(t, held))
			if l != multi {
				assert.JSONEq(t, want, marshalled(t, held))
			}
			assert.Equal(t, held.String(), fmt.Sprintf("%v", held))
			assert.Equal(t, "lock: "+held.String(), fmt.Sprintf("%#v", held))
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", held, held, held), "0x")

			require.NoError(t, held.Unlock(t.Context()))
			assert.Contains(t, logJSON(t, held), `"ended":"lock: not held"`)
			assert.Contains(t, marshalled(t, held), `"ended":"lock: not held"`)
			assert.NotContains(t, marshalled(t, held), "deadline")
		}
	})
	none := new(lock.Held)
	assert.Equal(t, "lock not held", fmt.Sprint(none))
	assert.Equal(t, "lock: lock not held", fmt.Sprintf("%#v", none))
	assert.Contains(t, logJSON(t, none), `"ended":`)
	assert.Contains(t, logJSON(t, (*lock.Held)(nil)), `"ended":`)
}

func TestAClientIsPrinted(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		held, err := b.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		want := `{"ttl":30000000000,"held":1,"waiting":0}`
		assert.JSONEq(t, want, logJSON(t, b.Client))
		assert.JSONEq(t, want, marshalled(t, b.Client))
		stats := b.Stats()
		assert.Regexp(t, `^0 waiting, 0 releasing, 1 held, `, stats.String())
		assert.Equal(t, stats.String(), fmt.Sprintf("%v", stats))
		assert.Contains(t, logJSON(t, stats), `"renewal":{"held":1`)
		stats.Replicas = driver.ReplicaStats{Enough: 5, TooFew: 3, Unanswered: 2}
		assert.Contains(t, logJSON(t, stats), `"replicas":{"enough":5,"tooFew":3,"unanswered":2}`)
		assert.Contains(t, marshalled(t, stats), `"Late":{"count":`)
		require.NoError(t, held.Unlock(t.Context()))
	})
	assert.Contains(t, logJSON(t, (*lock.Client)(nil)), `"held":0`)
}
