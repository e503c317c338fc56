package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// rightsOf returns the findings about rights of a user with these rules.
func rightsOf(t *testing.T, srv *testredis.Server, rules string) map[string]Finding {
	t.Helper()
	admin := srv.Client(t)
	user := testredis.ChannelRules(append([]any{"acl", "setuser", "limited", "reset", "on", ">pw"}, fields(rules)...)...)
	require.NoError(t, admin.Do(t.Context(), user...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "limited", Password: "pw", DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	report := checked(t, rdb, &Options{Prefix: "lw:"})
	assert.Zero(t, admin.DBSize(t.Context()).Val(), "the check writes no key")
	assert.NotContains(t, report.String(), "limited", "the name of the user is no part of the report")
	byCode := map[string]Finding{}
	for _, f := range report.Findings {
		if strings.HasPrefix(f.Code, "rights-") {
			byCode[f.Code] = f
		}
	}
	return byCode
}

func TestACheckFindsMissingRights(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	if !hasUsers(t, srv.Client(t)) {
		t.Skip("there are no rights before Redis 6")
	}
	const keys = "~lw:* &lw:* -@all "
	all := strings.Join([]string{rightsOfAStore, rightsOfWaiters, rightsOfSignals, rightsOfSharing, rightToInspect, rightToList, rightToExplain}, " ")
	assert.Empty(t, rightsOf(t, srv, keys+all))
	for code, rights := range map[string]string{
		"rights-locks": rightsOfAStore, "rights-waiting": "+rpush +lindex", "rights-messages": rightsOfSignals,
		"rights-sharing":    "+zcount +zrange +zrevrange +zscan +pexpireat +hget +hset +hdel +hlen +hmget +hscan +unlink",
		"rights-inspecting": rightToInspect + " " + rightToList, "rights-explaining": rightToExplain,
	} {
		for right := range strings.SplitSeq(rights, " ") {
			if right == "+unsubscribe" || right == "+rpush" && !testredis.Since(7, 0) {
				continue // a connection that closes needs no right; rpush cannot be tried
			}
			got := rightsOf(t, srv, keys+without(all, right))
			assert.Contains(t, got[code].Seen, strings.TrimPrefix(right, "+")+": no permission", "without %s", right)
		}
	}
	got := rightsOf(t, srv, keys+without(all, rightToExplain))
	assert.Equal(t, SeverityWarning, got["rights-explaining"].Severity, "it explains only")
	got = rightsOf(t, srv, "~other:* &lw:* -@all "+all)
	assert.Equal(t, SeverityUnsafe, got["rights-locks"].Severity, "the keys")
	if testredis.Since(6, 2) {
		got = rightsOf(t, srv, "~lw:* resetchannels -@all "+all)
		assert.Contains(t, got["rights-messages"].Seen, "subscribe: no permission")
		assert.Contains(t, got["rights-messages"].Seen, "publish: no permission")
	}
}

// A server, or the company that runs it, may have removed commands.
func TestACheckFindsRemovedCommands(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t, "--rename-command", "ZADD", "", "--rename-command", "LRANGE", "")
	report := checked(t, srv.Client(t), nil)
	assert.Equal(t, "zadd: unknown command", findingOf(t, report, "rights-waiting").Seen)
	assert.Equal(t, "zadd: unknown command", findingOf(t, report, "rights-sharing").Seen)
	assert.Equal(t, "lrange: unknown command", findingOf(t, report, "rights-inspecting").Seen)
}
