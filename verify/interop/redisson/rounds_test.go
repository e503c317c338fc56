package redisson

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// contendedRounds lets two threads of each side add to a counter that is not atomic.
func contendedRounds(p *pair) {
	for _, c := range []struct {
		kind, java, goes string // the kind, and the key on each side
		rounds           int
	}{
		{"lock", "contended lock", "contended lock", report.Rounds(1)},
		{"fair", "contended fair", "contended fair", report.Rounds(5)},
		{"fenced", "contended fenced", "contended fenced", report.Rounds(5)},
		{"write", "contended write", "contended write", report.Rounds(5)},
		{"multi", "contended 1,contended 2", "contended 2,contended 1", report.Rounds(50)},
	} {
		counter, l := "counter "+c.kind, p.locker(c.kind, c.goes)
		command := []string{"contend", c.kind, c.java, counter, strconv.Itoa(c.rounds / 2)}
		add := func() bool { return p.add(l, counter) }
		ours := p.contend(c.kind, c.rounds, [][]string{command, command}, add, add)
		assert.Equal(p, c.rounds/2*2+ours[0]+ours[1], p.value(counter), "%s: two holders at one time lose an addition", c.kind)
	}
}

// contend runs the commands in threads of the peer. Together they have so many rounds. Beside them, each
// of the functions runs again and again until both sides have had their rounds, or it returns false. The
// result is how often each function has run.
func (p *pair) contend(what string, rounds int, commands [][]string, functions ...func() bool) []int {
	p.Helper()
	began := time.Now()
	var answers []chan answer
	for i, words := range commands {
		answers = append(answers, p.java.start("thread "+strconv.Itoa(i), words...))
	}
	running := func(c chan answer) bool { return len(c) == 0 && time.Since(began) < limit }
	ran := make([]int, len(functions))
	var wg sync.WaitGroup
	for i, f := range functions {
		wg.Go(func() {
			for (ran[i] < rounds/len(functions) || slices.ContainsFunc(answers, running)) && f() {
				ran[i]++
			}
		})
	}
	wg.Wait()
	for _, c := range answers {
		p.java.await(c, what)
	}
	report.Contended(library, what, rounds, time.Since(began))
	return ran
}

// contendedTokens appends the token of each grant to one list. They must rise.
func contendedTokens(p *pair) {
	const key, list = "contended tokens", "list of tokens"
	n := report.Rounds(20)
	ours := p.contend("fenced, tokens compared", n, [][]string{{"tokens", key, list, strconv.Itoa(n)}}, func() bool {
		h, err := p.locker("fenced", key).Lock(p.Context())
		if !assert.NoError(p, err) {
			return false
		}
		assert.NoError(p, p.rdb.RPush(p.Context(), list, h.Token()).Err())
		return assert.NoError(p, h.Unlock(p.Context()))
	})
	var tokens []uint64
	require.NoError(p, p.rdb.LRange(p.Context(), list, 0, -1).ScanSlice(&tokens))
	require.Len(p, tokens, n+ours[0])
	assert.IsIncreasing(p, tokens)
}

// contendedReaders lets a writer and a reader of each side contend. A writer adds 1 to two counters,
// which readers must see equal.
func contendedReaders(p *pair) {
	const key, one, two = "contended readers", "first counter", "second counter"
	n := report.Rounds(10) / 2
	each := strconv.Itoa(n)
	write, read := p.locker("write", key), p.locker("read", key)
	ours := p.contend("read and write", 2*n, [][]string{{"writes", key, one, two, each}, {"reads", key, one, two, each}},
		func() bool { return p.add(write, one, two) },
		func() bool {
			h, err := read.Lock(p.Context())
			if !assert.NoError(p, err) {
				return false
			}
			first := p.value(one)
			second := p.value(two)
			return assert.Equal(p, first, second, "a reader sees half of a write") && assert.NoError(p, h.Unlock(p.Context()))
		})
	assert.Equal(p, n+ours[0], p.value(one))
	assert.Equal(p, n+ours[0], p.value(two))
}
