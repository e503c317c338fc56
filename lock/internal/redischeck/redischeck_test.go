package redischeck

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checked checks a server. Each finding has all its texts.
func checked(t *testing.T, rdb *redis.Client, target Target) (Server, []Finding) {
	t.Helper()
	const timeout = 25 * time.Second
	client, err := redisconn.New(rdb, redisconn.Options{Timeout: timeout, PoolSize: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Cancel()
		assert.NoError(t, client.Close())
		client.Wait()
	})
	target.Redis, target.Timeout, target.TTL = client, timeout, 30*time.Second
	target.Prove = func(context.Context, string, string, string) error { return nil }
	servers, findings, err := target.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, servers, 1)
	for _, f := range findings {
		assert.NotContains(t, []string{f.Seen, f.Means, f.Do}, "", f.Code)
	}
	return servers[0], findings
}

// codes returns the severities and codes, except findings that depend on the load of the machine.
func codes(findings []Finding) (list []string) {
	for _, f := range findings {
		if f.Code != "round-trip" {
			list = append(list, f.Severity+" "+f.Code)
		}
	}
	return list
}

func findingOf(t *testing.T, findings []Finding, code string) Finding {
	t.Helper()
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Code == code })
	require.GreaterOrEqual(t, i, 0, "no finding %s: %v", code, findings)
	return findings[i]
}

// scripted returns a client of a server that answers as a test says. The server has a good
// configuration otherwise, and no ACL.
func scripted(t *testing.T, answer func(command []string) string) *redis.Client {
	t.Helper()
	w := &testredis.Wire{Answer: func(command []string) string {
		for i := range command {
			command[i] = strings.ToLower(command[i])
		}
		if got := answer(command); got != "" {
			return got
		}
		return goodAnswer(command)
	}}
	return w.Client(t, redis.Options{DisableIdentity: true})
}

func goodAnswer(command []string) string {
	switch command[0] {
	case "time":
		return timeReply(time.Now())
	case "info":
		return bulk(goodInfo)
	case "config":
		return "*2\r\n" + bulk(command[2]) + bulk(map[string]string{"appendfsync": "always", "min-replicas-to-write": "0"}[command[2]])
	case "scan":
		return "*2\r\n$1\r\n0\r\n*0\r\n"
	case "evalsha":
		return "-NOSCRIPT No matching script\r\n"
	case "eval":
		if strings.Contains(command[1], "errors") { // one text for each command
			n := len(command) - 5
			return fmt.Sprintf("*%d\r\n", n) + strings.Repeat("$0\r\n\r\n", n)
		}
		return ":1\r\n"
	case "ping":
		return "+PONG\r\n"
	case "subscribe", "unsubscribe":
		return "*3\r\n" + bulk(command[0]) + bulk(command[1]) + ":1\r\n*3\r\n" + bulk("message") + bulk(command[1]) + bulk("check")
	}
	return "-ERR unknown command\r\n"
}

const goodInfo = "# Server\r\nredis_version:8.6.0\r\nrole:master\r\nconnected_slaves:0\r\naof_enabled:1\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

func timeReply(at time.Time) string {
	return "*2\r\n" + bulk(strconv.FormatInt(at.Unix(), 10)) + bulk(strconv.Itoa(at.Nanosecond()/1000))
}

// infoOf is an answer function that changes lines of INFO.
func infoOf(lines ...string) func(command []string) string {
	info := goodInfo
	for _, line := range lines {
		info += line + "\r\n" // later lines win
	}
	return func(command []string) string {
		if command[0] == "info" {
			return bulk(info)
		}
		return ""
	}
}

func TestACheckKnowsOtherServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		info    []string
		version string
		want    []string
	}{
		"good":              {nil, "Redis 8.6.0", nil},
		"volatile-lrm":      {[]string{"maxmemory:9", "maxmemory_policy:volatile-lrm"}, "Redis 8.6.0", []string{"unsafe eviction"}},
		"allkeys-lrm":       {[]string{"maxmemory:9", "maxmemory_policy:allkeys-lrm"}, "Redis 8.6.0", []string{"unsafe eviction"}},
		"a policy to come":  {[]string{"maxmemory:9", "maxmemory_policy:allkeys-new"}, "Redis 8.6.0", []string{"unsafe eviction"}},
		"too old":           {[]string{"redis_version:4.0.14"}, "Redis 4.0.14", []string{"unsafe version-old"}},
		"the oldest":        {[]string{"redis_version:5.0.0"}, "Redis 5.0.0", nil},
		"vulnerable":        {[]string{"redis_version:7.2.10"}, "Redis 7.2.10", []string{"warning version-vulnerable"}},
		"fixed":             {[]string{"redis_version:7.2.11"}, "Redis 7.2.11", nil},
		"vulnerable Valkey": {[]string{"redis_version:7.2.4", "valkey_version:8.1.3"}, "Valkey 8.1.3", []string{"warning version-vulnerable"}},
		"fixed Valkey":      {[]string{"redis_version:7.2.4", "valkey_version:9.1.2"}, "Valkey 9.1.2", nil},
		"a candidate":       {[]string{"redis_version:7.2.4", "valkey_version:9.2.0-rc1"}, "Valkey 9.2.0", nil},
		"Redict":            {[]string{"redis_version:7.2.4", "redict_version:7.3.0"}, "Redict 7.3.0", nil},
		"no version":        {[]string{"redis_version:unstable"}, "", []string{"not known version-old"}},
		"the AOF fails":     {[]string{"aof_last_write_status:err"}, "Redis 8.6.0", []string{"unsafe write-refused"}},
		"nearly full":       {[]string{"maxmemory:100", "used_memory:91"}, "Redis 8.6.0", []string{"warning memory"}},
		"half full":         {[]string{"maxmemory:100", "used_memory:50"}, "Redis 8.6.0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, findings := checked(t, scripted(t, infoOf(test.info...)), Target{})
			assert.Equal(t, test.want, codes(findings), "%v", findings)
			assert.Equal(t, test.version, server.Version)
		})
	}
}

func TestACheckCountsTheReplicasThatCanConfirm(t *testing.T) {
	t.Parallel()
	const ready = "slave0:ip=10.0.0.2,port=6379,state=online,offset=42,lag=1"
	for name, test := range map[string]struct{ second, severity, code, seen string }{
		"both":          {"slave1:ip=10.0.0.3,port=6379,state=online,offset=42,lag=5", "note", "replicas-asked", "Options.Replicas.Count is 2, 2 replicas"},
		"one copies":    {"slave1:ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0", "unsafe", "replicas-missing", "Options.Replicas.Count is 2, 2 replicas, 1 of them ready"},
		"one is mute":   {"slave1:ip=10.0.0.3,port=6379,state=online,offset=42,lag=6", "unsafe", "replicas-missing", "Options.Replicas.Count is 2, 2 replicas, 1 of them ready"},
		"one is hidden": {"slave9:", "unsafe", "replicas-missing", "Options.Replicas.Count is 2, 2 replicas, 1 of them ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, findings := checked(t, scripted(t, infoOf("connected_slaves:2", ready, test.second)), Target{Replicas: 2, Require: true})
			finding := findingOf(t, findings, test.code)
			assert.Equal(t, test.severity, finding.Severity)
			assert.Equal(t, test.seen, finding.Seen)
		})
	}
}

// Valkey 9.1 can be built without Lua.
func TestACheckSaysThatLuaIsMissing(t *testing.T) {
	t.Parallel()
	server, findings := checked(t, scripted(t, func(command []string) string {
		switch command[0] {
		case "info":
			return bulk(goodInfo + "redis_version:7.2.4\r\nvalkey_version:9.1.0\r\n")
		case "eval", "evalsha":
			return "-ERR unknown command '" + command[0] + "', with args beginning with: 'return' \r\n"
		}
		return ""
	}), Target{})
	assert.Equal(t, []string{"unsafe no-script"}, codes(findings), "%v", findings)
	assert.Equal(t, "Valkey 9.1.0", server.Version)
	assert.Contains(t, findingOf(t, findings, "no-script").Means, "Lua")
}

func TestACheckFindsAWrongClock(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{-time.Minute, time.Minute} {
		server, findings := checked(t, scripted(t, func(command []string) string {
			if command[0] == "time" {
				return timeReply(time.Now().Add(offset))
			}
			return ""
		}), Target{})
		assert.Equal(t, []string{"warning clock-offset"}, codes(findings), "%v", findings)
		assert.InDelta(t, offset.Seconds(), server.ClockOffset.Seconds(), 20)
	}
}

// samples returns readings of a right clock with these round trips.
func samples(trips ...time.Duration) (list []clockSample) {
	at := time.Now()
	for _, trip := range trips {
		list = append(list, clockSample{at, at.Add(trip), at.Add(trip / 2).Round(0)})
		at = at.Add(trip)
	}
	return list
}

func TestACheckComparesRoundTripsWithTheTTL(t *testing.T) {
	const ttl = 3 * time.Second
	ms := time.Millisecond
	for name, test := range map[string]struct {
		trips []time.Duration
		want  string
	}{
		"fast":             {[]time.Duration{ms, 2 * ms, 3 * ms}, ""},
		"at the bound":     {[]time.Duration{100 * ms, 100 * ms, 300 * ms}, ""},
		"a slow median":    {[]time.Duration{ms, 101 * ms, 102 * ms}, "warning round-trip"},
		"one slow answer":  {[]time.Duration{ms, ms, 301 * ms}, "warning round-trip"},
		"slower than that": {[]time.Duration{1001 * ms, 1001 * ms, 1001 * ms}, "unsafe round-trip"},
	} {
		c := &serverCheck{Target: &Target{TTL: ttl}, sample: samples(test.trips...)}
		c.judgeClock()
		if test.want == "" {
			assert.Empty(t, c.findings, name)
			continue
		}
		require.Len(t, c.findings, 1, name)
		assert.Equal(t, test.want, c.findings[0].Severity+" "+c.findings[0].Code, name)
	}
}

func TestACheckWithoutTimeKnowsNoRoundTrips(t *testing.T) {
	t.Parallel()
	_, findings := checked(t, scripted(t, func(command []string) string {
		if command[0] == "time" {
			return "-NOPERM this user has no permissions to run the 'time' command\r\n"
		}
		return ""
	}), Target{})
	assert.Equal(t, NotKnown, findingOf(t, findings, "round-trip").Severity)
	assert.Equal(t, NotKnown, findingOf(t, findings, "clock-offset").Severity)
}

// The other rights that the package comment names are those of a connection, and of CLUSTER SLOTS.
func TestACheckTriesTheDocumentedRights(t *testing.T) {
	doc, err := os.ReadFile("../../redisstore/doc.go")
	require.NoError(t, err)
	documented := regexp.MustCompile(`\+[a-z]+\b`).FindAllString(string(doc), -1)
	tried := []string{"+eval", "+subscribe", "+unsubscribe"}
	for _, g := range slices.Concat([]rightsGroup{clusterRights, replicaRights, explainingRights}, rightsNeeded, directRights) {
		for _, form := range g.forms {
			tried = append(tried, "+"+nameOf(form))
		}
	}
	for _, list := range []*[]string{&documented, &tried} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	documented = slices.DeleteFunc(documented, func(right string) bool {
		return slices.Contains([]string{"+client", "+cluster", "+select"}, right)
	})
	assert.Equal(t, documented, tried)
}

func TestOperationsListsTheCodes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/OPERATIONS.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "\n## Check the server\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	for code := range advised {
		assert.Contains(t, table, "`"+code+"`")
	}
}
