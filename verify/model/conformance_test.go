package model

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/luascript"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// served is the configuration whose server states are compared. Its clock can be set back,
// so the model remembers the last token as the scripts do.
func served(owners int) Config {
	return Config{Owners: owners, TTL: 3, Place: 2, Tombstone: 2, QueueEnds: true, StepBack: 1, MinHold: 2}
}

// operations returns all requests that are possible in a state.
func operations(c Config, v *Server) []operation {
	var ops []operation
	for o := range c.Owners {
		ops = append(ops,
			operation{kind: Acquire, owner: o},
			operation{kind: Acquire, owner: o, place: c.Place},
			operation{kind: Renew, owner: o, token: max(v.Token, 1)},
			operation{kind: Renew, owner: o, token: v.Token + 3},
			operation{kind: Release, owner: o},
			operation{kind: Release, owner: o, tomb: true},
			operation{kind: Release, owner: o, keep: c.MinHold},
			operation{kind: Release, owner: o, keep: 1, tomb: true},
			operation{kind: Release, owner: o, bulk: true, token: max(v.Token, 1)},
			operation{kind: Release, owner: o, bulk: true, token: v.Token + 3})
	}
	return append(ops, operation{token: max(v.Token, 1)}, operation{token: v.Token + 3})
}

// settle renumbers the tokens of a server.
func settle(v *Server) {
	if v.Last > 0 {
		v.Last = min(v.Last-v.Token, 1) + min(v.Token, 1)
	}
	v.Token = min(v.Token, 1)
	v.LastLeft = 0
}

// serverStates returns all states of the server that operations and time can reach.
func serverStates(c Config) []Server {
	known := map[Server]bool{{}: true}
	states := []Server{{}}
	add := func(v Server) {
		settle(&v)
		if !known[v] {
			known[v] = true
			states = append(states, v)
		}
	}
	x := Scripts{Config: &c}
	for i := 0; i < len(states); i++ {
		v := states[i]
		for _, op := range operations(c, &v) {
			after := v
			x.Clock = max(v.Token, v.Last) + 1
			op.run(x, &after)
			add(after)
		}
		v.LastLeft = forever
		for o := range v.Records {
			if v.Records[o].Place == c.Place+1 { // as if the clock had been set back
				back := v
				back.Records[o].Place++
				add(back)
			}
		}
		if v.Left == c.TTL { // as if a renewal with a longer TTL had been executed
			longer := v
			longer.Left++
			add(longer)
		}
		v.tick()
		add(v)
	}
	return states
}

// compare executes an operation in the model and on the server, and returns both outcomes.
func compare(b *bridge, c Config, v Server, op operation, ahead bool) (model, server outcome, err error) {
	x := Scripts{Config: &c}
	k := tokens{fresh: max(v.Token, v.Last, op.token) + 2, ahead: ahead}
	model = x.expect(v, op, k)
	server, err = b.observe(x, &v, op, k)
	return model, server, err
}

// TestScriptsMatchTheModel executes every operation in every state of the server that two
// owners can reach, with the clock ahead of all tokens and behind the last one. Of the
// states of three owners it draws some; the long tier takes all.
func TestScriptsMatchTheModel(t *testing.T) {
	b := newBridge(t)
	rng := rand.New(rand.NewPCG(1, 2)) // a fixed seed; failures name the state and the operation
	for _, owners := range []int{2, 3} {
		c := served(owners)
		states := serverStates(c)
		share := 1.0
		if owners == 3 && !simreport.IsLong() {
			share = 20_000 / float64(2*len(states)*len(operations(c, &Server{})))
		}
		compared := 0
		for _, v := range states {
			for _, op := range operations(c, &v) {
				for _, ahead := range []bool{false, true} {
					if ahead && v.Last == 0 || rng.Float64() >= share {
						continue
					}
					model, server, err := compare(b, c, v, op, ahead)
					require.NoError(t, err)
					require.Equal(t, model.String(), server.String(), "%+v\n%v, clock behind: %v", v, op, ahead)
					compared++
				}
			}
		}
		report.Add("scripts  %d owners: %d states of the server, %d operations compared with a real server, 0 differ", owners, len(states), compared)
		assert.Greater(t, compared, 5_000)
	}
}

// TestComparisonFindsMutations breaks the scripts of the model, one rule at a time. The
// comparison with the Lua scripts must fail.
func TestComparisonFindsMutations(t *testing.T) {
	b := newBridge(t)
	mutations := []Mutation{
		NoTombstone, TombstoneTooShort, AgainShortens, AgainNewToken, NewcomerBarges, LastInFirstOut, PollLosesTurn,
		PollKeepsEnd, QueueWithoutEnd, DeadAreServed, GrantOfWholeTTL, GrantPastThePlace, GrantKeepsPlace, GrantWithoutEnd,
		HandOverKeepsToken, TokenWithoutClock, TokenFromClockAlone, RenewOfAnyone, RenewOfAnyToken, RenewCreates,
		ReleaseOfAnyone, ReleasePopsAgain, CancelLeavesPlace, CancelLeavesGrant, ForceWithoutToken, NoAdvance,
		RestForgotten, KeptForTheLease, KeptIsHandedOver, KeptIsFree, KeptIsRenewed, KeptIsReleasedAgain,
	}
	states := serverStates(served(3))
	for _, mutation := range mutations {
		c := served(3)
		c.Mutation = mutation
		if mutation == TombstoneTooShort {
			c.Mutation, c.Tombstone = NoMutation, c.Tombstone-1
		}
		assert.True(t, differs(t, b, c, states, operations), "mutation %d", mutation)
	}
	report.Add("scripts  %d mutations in those of the model: each is seen as a difference", len(mutations))
}

// differs returns whether a broken model differs from the server in one of the states.
func differs(t *testing.T, b *bridge, c Config, states []Server, operations func(Config, *Server) []operation) bool {
	whole := served(c.Owners)
	for _, v := range states {
		for _, op := range operations(c, &v) {
			for _, ahead := range []bool{false, true} {
				k := tokens{fresh: max(v.Token, v.Last, op.token) + 2, ahead: ahead && v.Last > 0}
				right, wrong := Scripts{Config: &whole}.expect(v, op, k), Scripts{Config: &c}.expect(v, op, k)
				if right.String() == wrong.String() {
					continue // the mutation has no effect here
				}
				server, err := b.observe(Scripts{Config: &whole}, &v, op, k)
				require.NoError(t, err)
				if server.String() != wrong.String() {
					return true
				}
			}
		}
	}
	return false
}

// broken loads a script with a change of a text that occurs once, and returns its digest.
func (b *bridge) broken(t *testing.T, source string, change [2]string) string {
	require.Equal(t, 1, strings.Count(source, change[0]), change[0])
	digest, err := b.rdb.ScriptLoad(b.ctx, strings.Replace(source, change[0], change[1], 1)).Result()
	require.NoError(t, err)
	return digest
}

// TestComparisonFindsABrokenBulkRelease breaks release_all.lua itself.
func TestComparisonFindsABrokenBulkRelease(t *testing.T) {
	b := newBridge(t)
	source, err := readLua("release_all")
	require.NoError(t, err)
	c := served(2)
	states := serverStates(c)
	for what, change := range map[string][2]string{
		"it is of anyone's lock":             {"values[i] == args[i]", "values[i]"},
		"it does not look at the queue":      {"queues == 0 or call('EXISTS', keys[n + i]) == 0", "true"},
		"it looks at some other queue":       {"call('EXISTS', keys[n + i]) == 0", "call('EXISTS', keys[i]) == 1"},
		"it deletes nothing":                 {"#deleted > 0", "#deleted > 9"},
		"it tells nothing of what it leaves": {"kept[#kept + 1] = i", "kept[#kept] = i"},
	} {
		b.releaseAll = b.broken(t, source, change)
		assert.True(t, someDiffer(t, b, c, states, func(op operation) bool { return op.bulk }), what)
	}
}

// TestTheComparisonSeesABrokenRenewal breaks renew.lua itself.
func TestTheComparisonSeesABrokenRenewal(t *testing.T) {
	b := newBridge(t)
	source, err := readLua("renew")
	require.NoError(t, err)
	c := served(2)
	states := serverStates(c)
	without := "local gt = false"
	option := "local gt = (redis.REDIS_VERSION_NUM or 0) >= 0x70000"
	for what, change := range map[string][2]string{
		"it does not look at the value":            {"values[i] == args[i + 1]", "values[i]"},
		"it shortens a lease":                      {", 'GT') == 1", ") == 1"},
		"it shortens a lease on an older server":   {"left < ms and (left >= 0 or ms > 1)", "true"},
		"it extends nothing":                       {"not (gt and call('PEXPIRE', key, ttl, 'GT') == 1)", "false"},
		"it extends nothing on an older server":    {"left < ms and (left >= 0 or ms > 1)", "false"},
		"it extends nothing and calls it not held": {"call('PEXPIRE', key, ttl) == 1", "false"},
	} {
		broken := source
		if !strings.Contains(change[0], "GT") {
			broken = strings.Replace(broken, option, without, 1)
		}
		b.renew = b.broken(t, broken, change)
		assert.True(t, someDiffer(t, b, c, states, func(op operation) bool { return op.kind == Renew }), what)
	}
	b.renew = b.broken(t, source, [2]string{option, without})
	assert.False(t, someDiffer(t, b, c, states, func(op operation) bool { return op.kind == Renew }), "the commands for older servers do the same")
}

// someDiffer returns whether one of the given operations differs from the model in one of the
// states.
func someDiffer(t *testing.T, b *bridge, c Config, states []Server, which func(operation) bool) bool {
	for _, v := range states {
		for _, op := range append(operations(c, &v), saveOperations(c, &v)...) {
			if !which(op) {
				continue
			}
			model, server, err := compare(b, c, v, op, false)
			require.NoError(t, err)
			if model.String() != server.String() {
				return true
			}
		}
	}
	return false
}

// saveOperations returns all saves that are possible in a state, and the requests for the state.
func saveOperations(c Config, v *Server) []operation {
	var ops []operation
	for o := range c.Owners {
		ops = append(ops,
			operation{kind: Save, owner: o, token: max(v.Token, 1), save: 1},
			operation{kind: Save, owner: o, token: max(v.Token, 1), save: 2},
			operation{kind: Save, owner: o, token: v.Token + 3, save: 1},
			operation{kind: Acquire, owner: o, state: true},
			operation{kind: Acquire, owner: o, state: true, place: c.Place})
	}
	return ops
}

// savedStates returns the states of the server with no state of the key, with one of another
// lease, and with two of its own lease.
func savedStates(states []Server) []Server {
	const otherLease = 9
	var out []Server
	for _, v := range states {
		kept := []Saved{{}, {otherLease, 1, 1}, {otherLease, 2, 2}}
		if v.Token > 0 {
			kept = append(kept, Saved{v.Token, 1, 1}, Saved{v.Token, 2, 2})
		}
		for _, v.Saved = range kept {
			out = append(out, v)
		}
	}
	return out
}

// TestScriptsMatchTheModelWithAState compares the save, the grants that tell the state, and
// everything else, which must leave the state alone. The long tier takes all; others draw some.
func TestScriptsMatchTheModelWithAState(t *testing.T) {
	b, c := newBridge(t), served(2)
	states := savedStates(serverStates(c))
	c.Saves = 1
	ops := func(c Config, v *Server) []operation { return append(saveOperations(c, v), operations(c, v)...) }
	rng, share, compared := rand.New(rand.NewPCG(3, 4)), 1.0, 0
	if !simreport.IsLong() {
		share = 10_000 / float64(len(states)*len(ops(c, &Server{})))
	}
	for _, v := range states {
		for _, op := range ops(c, &v) {
			if rng.Float64() >= share {
				continue
			}
			model, server, err := compare(b, c, v, op, v.Last > 0 && rng.IntN(2) == 0)
			require.NoError(t, err)
			require.Equal(t, model.String(), server.String(), "%+v\n%v", v, op)
			compared++
		}
	}
	assert.Greater(t, compared, 5_000)
	mutations := []Mutation{SaveOfAnyone, SaveOfAnyToken, SaveUnnumbered, NumberOfAnyLease, RepeatIsDenied, StateEndsWithLease, SignalTellsNothing}
	for _, mutation := range mutations {
		c := c
		c.Mutation = mutation
		assert.True(t, differs(t, b, c, states, ops), "mutation %d", mutation)
	}
	report.Add("scripts  with a state: %d states of the server, %d operations compared with a real server, 0 differ; %d mutations are seen", len(states), compared, len(mutations))
}

// TestTheComparisonSeesABrokenSave breaks save.lua itself.
func TestTheComparisonSeesABrokenSave(t *testing.T) {
	b := newBridge(t)
	source, err := luascript.Assemble("save", readLua)
	require.NoError(t, err)
	c := served(2)
	states := savedStates(serverStates(c))
	for what, change := range map[string][2]string{
		"it does not look at the lock":       {"redis.call('GET', KEYS[1]) ~= ARGV[1]", "redis.call('EXISTS', KEYS[1]) == 0"},
		"it does not look at the number":     {"tonumber(number) < tonumber(ARGV[3])", "true"},
		"it replaces with the same number":   {"tonumber(number) < tonumber(ARGV[3])", "tonumber(number) <= tonumber(ARGV[3])"},
		"it does not look at the old token":  {"token ~= ARGV[2] or tonumber(number)", "tonumber(number or 0)"},
		"its state does not expire":          {", 'PX', ARGV[5]", ""},
		"it answers nothing new as not held": {"\nend\nreturn 1", "\n  return 1\nend\nreturn 0"},
	} {
		b.save = b.broken(t, source, change)
		assert.True(t, someDiffer(t, b, c, states, func(op operation) bool { return op.kind == Save }), what)
	}
}
