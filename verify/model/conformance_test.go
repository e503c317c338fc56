package model

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

// served is the configuration of which all states of the server are compared. That
// clocks can be set back makes the model remember the last token, as the scripts do.
func served(owners int) Config {
	return Config{Owners: owners, TTL: 3, Place: 2, Tombstone: 2, QueueEnds: true, StepBack: 1}
}

// operations are all that the server can be asked for in a state.
func operations(c Config, v *Server) []operation {
	var ops []operation
	for o := range c.Owners {
		ops = append(ops,
			operation{kind: Acquire, owner: o},
			operation{kind: Acquire, owner: o, place: c.Place},
			operation{kind: Renew, owner: o, token: max(v.Token, 1)},
			operation{kind: Renew, owner: o, token: v.Token + 3},
			operation{kind: Release, owner: o},
			operation{kind: Release, owner: o, tomb: true})
	}
	return append(ops, operation{token: max(v.Token, 1)}, operation{token: v.Token + 3})
}

// settle gives the tokens of a server the lowest numbers.
func settle(v *Server) {
	if v.Last > 0 {
		v.Last = min(v.Last-v.Token, 1) + min(v.Token, 1)
	}
	v.Token = min(v.Token, 1)
	v.LastLeft = 0
}

// serverStates are all states of the server that operations and time lead to.
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
		v.tick()
		add(v)
	}
	return states
}

// compare does an operation in the model and on the server, and returns what each
// makes of it.
func compare(b *bridge, c Config, v Server, op operation, ahead bool) (model, server outcome, err error) {
	x := Scripts{Config: &c}
	k := tokens{fresh: max(v.Token, v.Last, op.token) + 2, ahead: ahead}
	model = x.expect(v, op, k)
	server, err = b.observe(x, &v, op, k)
	return model, server, err
}

// TestTheScriptsAreTheModel does every operation in every state of the server that
// two owners can lead to, once with the clock past all tokens and once behind the
// last. Of three owners it takes some, or all in the long tier.
func TestTheScriptsAreTheModel(t *testing.T) {
	b := newBridge(t)
	rng := rand.New(rand.NewPCG(1, 2)) // any will do: failures name all that is needed
	for _, owners := range []int{2, 3} {
		c := served(owners)
		states := serverStates(c)
		share := 1.0
		if owners == 3 && !part.IsLong() {
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

// TestTheComparisonSeesABug breaks the scripts of the model, one rule at a time:
// then they must differ from those in use.
func TestTheComparisonSeesABug(t *testing.T) {
	b := newBridge(t)
	bugs := []Bug{
		NoTombstone, TombstoneTooShort, AgainShortens, AgainNewToken, NewcomerBarges, LastInFirstOut, PollLosesTurn,
		PollKeepsEnd, QueueWithoutEnd, DeadAreServed, GrantOfWholeTTL, GrantKeepsPlace, GrantWithoutEnd,
		HandOverKeepsToken, TokenWithoutClock, TokenFromClockAlone, RenewOfAnyone, RenewOfAnyToken, RenewCreates,
		ReleaseOfAnyone, ReleasePopsAgain, CancelLeavesPlace, CancelLeavesGrant, ForceWithoutToken, NoAdvance,
	}
	states := serverStates(served(3))
	for _, bug := range bugs {
		c := served(3)
		c.Bug = bug
		if bug == TombstoneTooShort {
			c.Bug, c.Tombstone = NoBug, c.Tombstone-1
		}
		assert.True(t, differs(t, b, c, states), "bug %d", bug)
	}
	report.Add("scripts  %d bugs in those of the model: each is seen as a difference", len(bugs))
}

// differs tells whether a model that is broken shows it in any of the states.
func differs(t *testing.T, b *bridge, c Config, states []Server) bool {
	whole := served(c.Owners)
	for _, v := range states {
		for _, op := range operations(c, &v) {
			for _, ahead := range []bool{false, true} {
				k := tokens{fresh: max(v.Token, v.Last, op.token) + 2, ahead: ahead && v.Last > 0}
				right, wrong := Scripts{Config: &whole}.expect(v, op, k), Scripts{Config: &c}.expect(v, op, k)
				if right.String() == wrong.String() {
					continue // no need to ask the server
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
