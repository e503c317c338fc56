package main

import (
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	if name := os.Getenv(peerEnv); name != "" { // a process of a client, as the program starts it
		c, err := candidateOrMutant(name)
		exit(err)
		exit(c.runPeer(os.Args[1:]))
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // the tests wait for leases
	goleak.VerifyTestMain(m)
}

// played plays one round. Busy machines make answers late, so that a test asserts only what holds for
// any delay, and may look at a second round.
func played(t *testing.T, client, faultName string) row {
	t.Helper()
	c, err := candidateOrMutant(client)
	require.NoError(t, err)
	i := faultOrder(faultName)
	require.GreaterOrEqual(t, i, 0)
	r := play(c, faults()[i], 0)
	require.Empty(t, r.Failed)
	t.Logf("%+v", r)
	return r
}

// TestTheHarnessFindsWhatIsKnown plays faults whose outcome is known from the sources of the clients, or
// from how a mutant was broken.
func TestTheHarnessFindsWhatIsKnown(t *testing.T) {
	for _, test := range []struct {
		client, fault string
		known         func(t *testing.T, r row)
	}{
		// rueidislock sets the new deadline of its context before the extension is answered.
		{"rueidislock", "cut", func(t *testing.T, r row) {
			assert.Positive(t, r.Overlap)
			assert.Positive(t, r.Stale)
			require.NotNil(t, r.Told)
			assert.Positive(t, *r.Told)
		}},
		// The watchdog in the README of redislock waits for the answer of Refresh.
		{"redislock", "cut", func(t *testing.T, r row) { assert.Positive(t, r.Overlap) }},
		// go-redis sends SET NX again and finds the key taken. redsync deletes it and pauses for 50 ms or more.
		{"redsync", "acquire-lost", func(t *testing.T, r row) { assert.GreaterOrEqual(t, r.Free, 50.0) }},
		{"not released", "acquire-lost", func(t *testing.T, r row) { assert.True(t, r.Unserved) }},
		{"told late", "cut", func(t *testing.T, r row) {
			assert.Positive(t, r.Overlap)
			assert.Zero(t, r.StaleFenced, "its tokens are right")
		}},
		{"told only by the server", "cut", func(t *testing.T, r row) { assert.True(t, r.Never) }},
	} {
		t.Run(test.client+"/"+test.fault, func(t *testing.T) {
			t.Parallel()
			test.known(t, played(t, test.client, test.fault))
		})
	}
}

// TestOursIsTold plays a fault that the promises of this project are about.
func TestOursIsTold(t *testing.T) {
	t.Parallel()
	r := played(t, ours, "cut")
	assert.Zero(t, r.StaleFenced)
	assert.False(t, r.Never)
	assert.False(t, r.Unserved)
}

func TestOverlapIsOfProcessesThatRun(t *testing.T) {
	a := &turn{got: 10, until: 50, stopped: []span{{20, 45}}}
	b := &turn{got: 30, until: 90}
	assert.EqualValues(t, 5, overlap([]*turn{a, b}))
	assert.EqualValues(t, 0, overlap([]*turn{a, {got: 50, until: 60}, {}}))
}

func TestStaleWritesAreThoseAfterALaterHolder(t *testing.T) {
	old := &turn{got: 1, token: 5, writes: []int64{2, 12}}
	without, with := stale([]*turn{old, {got: 10, token: 6, writes: []int64{11, 13}}})
	assert.Equal(t, [2]int{1, 0}, [2]int{without, with})
	without, with = stale([]*turn{{got: 1, writes: []int64{2, 12}}, {got: 10, writes: []int64{11, 13}}})
	assert.Equal(t, [2]int{1, 1}, [2]int{without, with}, "without tokens")
	without, with = stale([]*turn{old, {got: 10, token: 4, writes: []int64{11, 13}}})
	assert.Equal(t, [2]int{1, 1}, [2]int{without, with}, "tokens that fall")
}

func TestTheLockIsFreeWhileSomebodyWaitsAndNobodyHoldsIt(t *testing.T) {
	holder := &turn{asked: 0, got: 10, until: 50}
	assert.EqualValues(t, 20, free([]*turn{holder, {asked: 20, got: 70, until: 80}}))
	assert.EqualValues(t, 0, free([]*turn{holder, {asked: 60, got: 60, until: 80}}))
	assert.EqualValues(t, 5, free([]*turn{holder, {asked: 20, gaveUp: 55}}))
}

func TestRowsOfOtherFaultsAreKept(t *testing.T) {
	r := &results{Rows: []row{{Client: ours, Fault: "cut", Round: 3}, {Client: ours, Fault: "waiters"}}}
	r.replace([]row{{Client: ours, Fault: "cut", Round: 1}, {Client: ours, Fault: "cut"}})
	assert.Equal(t, []row{{Client: ours, Fault: "cut"}, {Client: ours, Fault: "cut", Round: 1}, {Client: ours, Fault: "waiters"}}, r.Rows)
	path := t.TempDir() + "/rows.json"
	require.NoError(t, r.save(path))
	again := &results{}
	require.NoError(t, again.load(path))
	assert.Equal(t, r, again)
}

func TestTheFlagsNameWhatExists(t *testing.T) {
	c, err := parse([]string{"-clients", ours + " on 3 Redis,redsync", "-faults", "cut,kill"}, t.Output())
	require.NoError(t, err)
	assert.Equal(t, []string{ours + " on 3 Redis", "redsync"}, c.clients)
	assert.Equal(t, []string{"cut", "kill"}, c.faults)
	for _, wrong := range [][]string{{"-clients", "nobody"}, {"-faults", "nothing"}} {
		_, err := parse(wrong, t.Output())
		assert.Error(t, err)
	}
}
