//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

const (
	resumerEnv = "LEASEWHEEL_TEST_RESUMER" // names the server to the process that resumes a lock
	resumedTTL = 6 * time.Second
)

func init() {
	if addr := os.Getenv(resumerEnv); addr != "" {
		instead = func() { resumeAndUnlock(addr) }
	}
}

// resumeAndUnlock is the main function of the other process. It reads the secret, resumes the
// lock, and unlocks it after a second line.
func resumeAndUnlock(addr string) {
	ctx := context.Background()
	store, err := New(redis.NewClient(&redis.Options{Addr: addr}), nil)
	must(err)
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: resumedTTL}})
	must(err)
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	held, err := client.Resume(ctx, in.Text())
	must(err)
	fmt.Println("resumed", held.Key(), held.Token())
	in.Scan()
	fmt.Println("unlocked", held.Unlock(ctx))
	must(client.Close(ctx))
}

// TestAnotherProcessResumesALock hands a lock over to a process that was started for it. The
// lock outlives the client that acquired it.
func TestAnotherProcessResumesALock(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	addr := testredis.Start(t).Addr()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	s, err := New(rdb, nil)
	require.NoError(t, err)
	client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 10 * resumedTTL, Metadata: "of the exporter"}})
	require.NoError(t, err)
	held, err := client.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	secret, err := held.Export()
	require.NoError(t, err)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), resumerEnv+"="+addr)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	other := &holder{process: cmd.Process, lines: bufio.NewScanner(out)}
	send := func(line string) {
		_, err := io.WriteString(in, line+"\n")
		require.NoError(t, err)
	}
	send(secret)
	require.Equal(t, fmt.Sprint("resumed k ", held.Token()), other.line(t))
	require.NoError(t, held.Detach())
	require.NoError(t, client.Close(ctx))

	look := newStore(t, rdb, &Options{})
	left := func() time.Duration {
		info, err := look.Inspect(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, 1, info.Held, "it is held all the time")
		require.Equal(t, held.Token(), info.Token)
		assert.Equal(t, "of the exporter", info.Holders[0].Metadata)
		return info.Holders[0].ExpiresIn
	}
	// The rest of the exporter's TTL is not waited for: the key gets the rest of a short one.
	require.NoError(t, rdb.PExpire(ctx, look.lockKey("k"), resumedTTL).Err())
	last, renewals := left(), 0
	require.Eventually(t, func() bool {
		now := left()
		if now > last {
			renewals++
		}
		last = now
		return renewals >= 3
	}, time.Minute, 10*time.Millisecond, "the other process renews the lock")
	send("unlock")
	require.Equal(t, "unlocked <nil>", other.line(t))
	info, err := look.Inspect(ctx, "k")
	require.NoError(t, err)
	assert.Zero(t, info.Held)
}
