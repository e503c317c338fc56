package demo

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestACheckTellsByItsStatusIfTheServerIsUnsafe(t *testing.T) {
	t.Parallel()
	good := testredis.Start(t, "--appendonly", "yes")
	out, errs, code := command(t, "", nil, "-check", "-redis", good.Addr())
	assert.Empty(t, errs)
	assert.Zero(t, code, out)
	assert.Contains(t, out, "1 server, TTL 30s: 0 unsafe")
	assert.Contains(t, out, good.Addr())
	assert.Contains(t, out, "appendfsync is everysec")

	bad := testredis.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	out, errs, code = command(t, "", nil, "-check", "-redis", bad.URL(), "-ttl", "20s")
	assert.Equal(t, "renewdemo: the server is unsafe for locks\n", errs)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "TTL 20s")
	assert.Contains(t, out, "maxmemory-policy is allkeys-lru")
	assert.Contains(t, out, "Set maxmemory-policy to noeviction.")
}

func TestACheckOfAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	out, errs, code := command(t, "", nil, "-check", "-redis", "localhost:1")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "unreachable")
	assert.Equal(t, "renewdemo: the server is unsafe for locks\n", errs)
}

func TestACheckOfANodeChecksItsCluster(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 3, false)
	out, _, code := command(t, "", nil, "-check", "-redis", c.Masters[0].Addr())
	assert.Zero(t, code, out)
	for _, addr := range c.Addrs() {
		assert.Contains(t, out, addr)
	}
}

func TestACheckNeedsAServer(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-check"}, {"-check", "-proof", "-redis", "localhost:1"}, {"-check", "-fault", "hang", "-redis", "localhost:1"}} {
		_, err := parse(args, io.Discard)
		require.ErrorContains(t, err, "-check")
	}
	_, errs, code := command(t, "", nil, "-check", "-redis", "localhost:1", "-ttl", "1ms")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "CheckOptions.TTL")
}
