package redisson

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// documentedRights returns the rules for a user who may do what the package comment names.
func documentedRights(t *testing.T) []any {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, rights, found := strings.Cut(string(text), "// # Rights")
	require.True(t, found)
	rights, _, _ = strings.Cut(rights, "\n//\n// [")
	rules := []any{"allkeys", "resetchannels", "&redisson_*", "-@all"}
	commands := regexp.MustCompile(`\b[A-Z]{4,}\b`).FindAllString(rights, -1)
	require.NotEmpty(t, commands)
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`call\('([A-Za-z]+)'`).FindAllSubmatch(source, -1) {
			commands = append(commands, string(m[1]))
		}
	}
	for _, c := range commands {
		rules = append(rules, "+"+strings.ToLower(c))
	}
	return rules
}

// A wait of a user with exactly the documented rights costs no connection.
func TestTheDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	admin := server.Client(t)
	rules := append([]any{"acl", "setuser", "limited", "on", ">secret"}, documentedRights(t)...)
	require.NoError(t, admin.Do(t.Context(), rules...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "limited", Password: "secret", DisableIdentity: true})
	defer rdb.Close()
	holder, waiter := newStore(t, admin, nil), newStore(t, rdb, nil)
	connections := func() (n int) {
		info := admin.Info(t.Context(), "stats").Val()
		_, after, _ := strings.Cut(info, "total_connections_received:")
		_, err := fmt.Sscan(after, &n)
		require.NoError(t, err)
		return n
	}
	var warm int
	for i := range 20 {
		r := driver.Request{Key: fmt.Sprint("k", i), Owner: fmt.Sprint("a:", i), TTL: time.Minute}
		held, err := holder.Acquire(t.Context(), r)
		require.NoError(t, err)
		r.Owner = fmt.Sprint("b:", i)
		done := make(chan error, 1)
		go func() {
			l, err := waiter.Wait(t.Context(), r, func() {})
			if err == nil {
				err = waiter.Release(t.Context(), l)
			}
			done <- err
		}()
		require.Eventually(t, func() bool {
			return admin.PubSubNumSub(t.Context(), lockChannel(r.Key)).Val()[lockChannel(r.Key)] > 0
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, holder.Release(t.Context(), held))
		require.NoError(t, <-done)
		if i == 4 {
			warm = connections()
		}
	}
	assert.LessOrEqual(t, connections()-warm, 3)
}
