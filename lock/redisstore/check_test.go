package redisstore

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// checked returns the report of a check, which must succeed.
func checked(t *testing.T, rdb redis.UniversalClient, o *Options) Report {
	t.Helper()
	report, err := newStore(t, rdb, o).Check(t.Context(), nil)
	require.NoError(t, err)
	for _, f := range report.Findings {
		assert.NotEmpty(t, f.Seen, f.Code)
		assert.NotEmpty(t, f.Means, f.Code)
		assert.NotEmpty(t, f.Do, f.Code)
		assert.Contains(t, report.String(), f.String())
	}
	return report
}

// found returns the findings as "severity code", with those of the test machine left out.
func found(report Report) []string {
	list := []string{}
	for _, f := range report.Findings {
		if f.Code == "round-trip" || f.Code == "version-vulnerable" { // the machine may be busy, or the server old
			continue
		}
		list = append(list, string(f.Severity)+" "+f.Code)
	}
	return list
}

// findingOf returns the finding with a code, which must exist.
func findingOf(t *testing.T, report Report, code string) Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Code == code {
			return f
		}
	}
	require.Fail(t, "no finding "+code, "%v", report)
	return Finding{}
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// with returns args and those of a server that loses nothing.
func with(args ...string) []string { return append(args, durable...) }

func TestACheckOfAGoodServerFindsNothing(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t, durable...)
	rdb := srv.Client(t)
	report := checked(t, rdb, nil)
	assert.Empty(t, found(report), "%v", report)
	assert.True(t, report.Safe())
	assert.Zero(t, rdb.DBSize(t.Context()).Val(), "the check writes no key")

	require.Len(t, report.Servers, 1)
	s := report.Servers[0]
	assert.Equal(t, srv.Addr(), s.Address)
	assert.NotEmpty(t, s.Version)
	assert.Equal(t, "master", s.Role)
	assert.Equal(t, "noeviction", s.Eviction)
	assert.Equal(t, "AOF always", s.Persistence)
	assert.Zero(t, s.Replicas)
	assert.NotEmpty(t, s.ShardedPubSub)
	assert.Positive(t, s.RoundTrip)
	assert.GreaterOrEqual(t, s.WorstRoundTrip, s.RoundTrip)
	assert.Less(t, s.ClockOffset.Abs(), 10*time.Second, "the server has the clock of this host")
	assert.Contains(t, report.String(), s.String())

	encoded, err := json.Marshal(report)
	require.NoError(t, err)
	var decoded Report
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	assert.Equal(t, report.Servers, decoded.Servers)
}

func TestACheckFindsEachBadSetting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want []string
		seen string // of the first finding
	}{
		"allkeys":           {with("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), []string{"unsafe eviction"}, "maxmemory-policy is allkeys-lru, maxmemory is 104857600"},
		"volatile":          {with("--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"), []string{"unsafe eviction"}, "volatile-ttl"},
		"no limit yet":      {with("--maxmemory-policy", "allkeys-lru"), []string{"warning eviction"}, "maxmemory is 0"},
		"nothing persisted": {nil, []string{"warning no-persistence"}, `appendonly is no, save is ""`},
		"snapshots": {
			[]string{"--save", "3600", "1"},
			[]string{"warning snapshot-errors", "warning snapshots-only"},
			`save is "3600 1", stop-writes-on-bgsave-error is yes`,
		},
		"snapshots without the stop of writes": {
			[]string{"--save", "3600", "1", "--stop-writes-on-bgsave-error", "no"},
			[]string{"warning snapshots-only"},
			`appendonly is no, save is "3600 1"`,
		},
		"everysec":         {[]string{"--appendonly", "yes"}, []string{"note fsync"}, "appendfsync is everysec"},
		"no fsync":         {[]string{"--appendonly", "yes", "--appendfsync", "no"}, []string{"warning fsync"}, "appendfsync is no"},
		"out of memory":    {with("--maxmemory", "1", "--maxmemory-policy", "noeviction"), []string{"unsafe write-refused", "warning memory"}, "OOM"},
		"too few replicas": {with("--min-replicas-to-write", "1"), []string{"unsafe write-refused"}, "NOREPLICAS"},
		"no scripts":       {with("--rename-command", "EVAL", ""), []string{"unsafe no-script"}, "nknown command"},
		"a node of a cluster": {
			with("--cluster-enabled", "yes"),
			[]string{"unsafe write-refused", "unsafe cluster-node", "not known rights-locks"},
			"CLUSTERDOWN",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "too few replicas" && !testredis.Since(7, 0) {
				t.Skip("this server counts no replicas for scripts")
			}
			report := checked(t, testredis.Start(t, test.args...).Client(t), nil)
			require.Equal(t, test.want, found(report), "%v", report)
			first := test.want[0][strings.LastIndex(test.want[0], " ")+1:]
			assert.Contains(t, findingOf(t, report, first).Seen, test.seen)
			assert.Equal(t, !strings.HasPrefix(test.want[0], "unsafe"), report.Safe())
		})
	}
}

func TestACheckFindsAReplica(t *testing.T) {
	t.Parallel()
	master := testredis.Start(t, with("--repl-diskless-sync-delay", "0")...)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica := testredis.Start(t, with("--replicaof", host, port)...)
	atMaster, atReplica := master.Client(t), replica.Client(t)
	require.Eventually(t, func() bool {
		return strings.Contains(atReplica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	}, 20*time.Second, 5*time.Millisecond)

	report := checked(t, atReplica, nil)
	assert.Equal(t, []string{"unsafe replica"}, found(report), "%v", report)
	assert.Equal(t, "replica", report.Servers[0].Role)

	report = checked(t, limited(t, atReplica), &Options{Prefix: "lw:"})
	assert.Equal(t, SeverityUnsafe, findingOf(t, report, "replica").Severity, "a write shows it to a user without INFO")

	report = checked(t, atMaster, nil)
	assert.Equal(t, []string{"warning replication"}, found(report), "%v", report)
	assert.Equal(t, 1, report.Servers[0].Replicas)
	require.NoError(t, atMaster.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	require.Eventually(t, func() bool {
		return strings.Contains(atMaster.Info(t.Context(), "replication").Val(), "min_slaves_good_slaves:1")
	}, 30*time.Second, 5*time.Millisecond)
	report = checked(t, atMaster, nil)
	assert.Equal(t, []string{"note replication"}, found(report), "%v", report)
}

// A hosted service may have neither INFO nor CONFIG.
func TestACheckReportsWhatItCannotSee(t *testing.T) {
	t.Parallel()
	report := checked(t, testredis.Start(t, with("--rename-command", "INFO", "", "--rename-command", "CONFIG", "")...).Client(t), nil)
	want := []string{"not known replica", "not known eviction", "not known no-persistence", "not known replication"}
	if !testredis.Since(7, 0) {
		want = append([]string{"not known version-old"}, want...) // scripts do not see it either
	}
	want = append([]string{"warning rights-explaining"}, want...)
	assert.Equal(t, want, found(report), "%v", report)
	s := report.Servers[0]
	assert.Equal(t, []any{"", "", "", -1}, []any{s.Role, s.Eviction, s.Persistence, s.Replicas})
	assert.Contains(t, CheckedServer{Address: "a:1", Version: "Redis 7.0.0"}.String(), "round trip not known")
	for _, fact := range []string{"role not known", "maxmemory-policy not known", "persistence not known", "replicas not known"} {
		assert.Contains(t, s.String(), fact)
	}

	report = checked(t, testredis.Start(t, with("--rename-command", "CONFIG", "")...).Client(t), nil)
	assert.Equal(t, []string{"not known snapshot-errors", "not known fsync"}, found(report), "%v", report)
}

func TestACheckOfAClusterNamesEachMaster(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 3, false, durable...)
	admin := c.Masters[1].Client(t)
	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
	report := checked(t, c.Client(t), nil)
	var addresses, bad []string
	for _, s := range report.Servers {
		addresses = append(addresses, s.Address)
	}
	assert.ElementsMatch(t, c.Addrs(), addresses)
	for _, f := range report.Findings {
		switch f.Code {
		case "eviction":
			bad = append(bad, f.Server)
		case "cluster-coverage", "cluster-timeout":
			assert.Equal(t, SeverityWarning, f.Severity)
		case "round-trip", "version-vulnerable":
		default:
			assert.Fail(t, "unexpected finding", "%v", f)
		}
	}
	assert.Equal(t, []string{c.Masters[1].Addr()}, bad)
	assert.Len(t, report.Findings, 3*2+1+extra(report), "%v", report)
}

// extra counts the findings that found leaves out.
func extra(report Report) int { return len(report.Findings) - len(found(report)) }

func TestACheckBehindSentinelNamesTheMaster(t *testing.T) {
	t.Parallel()
	s := startSentinel(t)
	report := checked(t, s.client(t), nil)
	require.Len(t, report.Servers, 1)
	assert.Equal(t, "master", report.Servers[0].Role)
	if testredis.Since(7, 0) { // CLIENT INFO has the address
		assert.Equal(t, s.master.Addr(), report.Servers[0].Address)
	}
}

func TestACheckIsBounded(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), &Options{Prefix: "lw:", Timeout: 200 * time.Millisecond})
	require.NoError(t, srv.Stop())
	t.Cleanup(func() { _ = srv.Cont() })
	report, err := s.Check(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"unsafe unreachable"}, found(report))
	assert.Contains(t, report.Findings[0].Seen, "no answer within 200ms")

	patient := newStore(t, srv.Client(t), &Options{Prefix: "lw:", Timeout: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errNoError) })
	report, err = patient.Check(ctx, nil)
	require.ErrorIs(t, err, errNoError)
	assert.Equal(t, []string{"unsafe unfinished"}, found(report))
}

// The other masters have answered when the check is given up.
func TestACheckIsNotSafeIfOneMasterHangs(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 3, false, durable...)
	s := newStore(t, c.Client(t), &Options{Timeout: time.Hour})
	for _, hanging := range c.Masters {
		_, err := s.Check(t.Context(), nil) // finds the masters
		require.NoError(t, err)
		require.NoError(t, hanging.Stop())
		t.Cleanup(func() { _ = hanging.Cont() })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		report, err := s.Check(ctx, nil)
		cancel()
		require.NoError(t, hanging.Cont())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, report.Safe(), "%v", report)
		assert.True(t, slices.ContainsFunc(report.Findings, func(f Finding) bool {
			return f.Code == "unfinished" && f.Server == hanging.Addr()
		}), "%v", report)
	}
	assert.False(t, Report{}.Safe(), "no server was checked")
}

func TestACheckRefusesMisuse(t *testing.T) {
	t.Parallel()
	s, rdb := sharedStore(t)
	_, err := s.Check(nil, nil) //nolint:staticcheck // the mistake of a user
	require.ErrorIs(t, err, rediskit.ErrNilContext)
	_, err = new(Store).Check(t.Context(), nil)
	require.ErrorIs(t, err, rediskit.ErrZeroStore)
	for _, ttl := range []time.Duration{-1, time.Millisecond, driver.MaxTTL + 1} {
		_, err = s.Check(t.Context(), &CheckOptions{TTL: ttl})
		require.ErrorIs(t, err, driver.ErrBadTTL)
		assert.Contains(t, err.Error(), "CheckOptions.TTL")
	}
	closed, err := New(rdb, nil)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, err = closed.Check(t.Context(), nil)
	require.ErrorIs(t, err, driver.ErrStoreClosed)
}
