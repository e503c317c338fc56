package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/faulttest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestEachLeaderGoesOnAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out exampletest.Output
		require.NoError(t, run(t.Context(), nil, &out))
		for order := 1; order <= 10; order++ {
			assert.Equal(t, 1, strings.Count(out.String(), fmt.Sprintf(": order %d: billed\n", order)), out.String())
		}
		for _, after := range []string{"0", "4", "8"} {
			assert.Equal(t, 1, strings.Count(out.String(), ": leads after order "+after+"\n"), out.String())
		}
		assert.Equal(t, 3, strings.Count(out.String(), ": all 10 orders are billed: 5500 cents\n"), out.String())
	})
}

var (
	leads  = regexp.MustCompile(`: leads after order (\d+)(?:\n|$)`)
	billed = regexp.MustCompile(`: order (\d+): billed\n`)
	again  = regexp.MustCompile(`: order (\d+): was charged already\n`)
	all    = regexp.MustCompile(`: all (\d+) orders are billed: (\d+) cents\n`)
)

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestKilledTenTimes kills each leader at a random instant, mostly between a charge and its Save.
func TestKilledTenTimes(t *testing.T) {
	const kills, pause = 10, 10 * time.Millisecond
	redisServer := testredis.Start(t)
	start := func(orders int) *exampletest.Process {
		return exampletest.Start(t, "-redis", "redis://"+redisServer.Addr(), "-replicas", "1", "-ttl", "500ms",
			"-orders", strconv.Itoa(orders), "-pause", pause.String(), "-fail", "0")
	}
	var log strings.Builder
	for range kills {
		leader := start(1_000_000)
		after := number(t, leads.FindStringSubmatch(leader.WaitFor(": leads after order "))[1])
		if skip := rand.IntN(20); skip > 0 {
			leader.WaitFor(fmt.Sprintf(": order %d: billed", after+skip))
		}
		time.Sleep(rand.N(pause))
		log.WriteString(leader.Kill())
	}
	log.WriteString(start(250).Wait())
	out := log.String()

	last := all.FindStringSubmatch(out)
	require.NotNil(t, last, out)
	orders := number(t, last[1])
	assert.GreaterOrEqual(t, orders, 250)
	assert.Equal(t, 100*orders*(orders+1)/2, number(t, last[2]), "the sum in the state")

	rdb := redisServer.Client(t)
	charges, err := rdb.HGetAll(t.Context(), "payments/"+month).Result()
	require.NoError(t, err)
	assert.Len(t, charges, orders, "the payment service")
	for order := 1; order <= orders; order++ {
		assert.Equal(t, strconv.Itoa(100*order), charges[strconv.Itoa(order)])
	}

	lines := map[string]int{}
	for _, m := range billed.FindAllStringSubmatch(out, -1) {
		lines[m[1]]++
		assert.Equal(t, 1, lines[m[1]], "order %s is billed again after its Save", m[1])
	}
	terms, repeated := len(leads.FindAllString(out, -1)), len(again.FindAllString(out, -1))
	assert.GreaterOrEqual(t, len(lines), orders-terms, "only a line may be missing whose process was killed after the Save")
	assert.Positive(t, repeated, "no process was killed between a charge and its Save")
	assert.Less(t, repeated, terms, "a leader repeats one charge at most")
	t.Logf("%d leaders, %d orders, %d charges repeated", terms, orders, repeated)
}

// schedules is how many schedules of faults a test plays.
const schedules = 300

// ledger is a payment service in a schedule. It counts what it was asked.
type ledger struct {
	memory
	asked int
	write func(ctx context.Context) error // of the resource
}

func (l *ledger) charge(ctx context.Context, order, cents int) (again bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	l.asked++
	again, err = l.memory.charge(ctx, order, cents)
	return again, errors.Join(err, l.write(ctx)) // the request has arrived, but the answer may be lost
}

// lead is billing.lead, or a version with a mistake.
type lead = func(b *billing, ctx context.Context, held *lock.Held, log *log.Logger) error

// bill returns a function that bills five orders, and adds 1 to *wrong if it ends with an order that was
// not charged, a wrong sum or needless charges.
func bill(wrong *int, fenced bool, lead lead) func(context.Context, *lock.Client, *faulttest.Resource) error {
	return func(ctx context.Context, client *lock.Client, r *faulttest.Resource) error {
		l := &ledger{memory: memory{orders: map[int]int{}}, write: r.Write}
		if fenced { // the keys protect the charges
			l.write = func(context.Context) error { return nil }
		}
		var out exampletest.Output
		b := &billing{orders: 5, service: slow{l, 5 * time.Second}}
		election := client.With(lock.Terms{StateTTL: stateTTL}).Election("billing", "a")
		err := election.Run(ctx, func(ctx context.Context, held *lock.Held) error {
			return lead(b, ctx, held, log.New(&out, "a: ", 0))
		})
		if err != nil {
			return err
		}
		text := out.String()
		if !strings.Contains(text, ": all 5 orders are billed: 1500 cents\n") || len(l.orders) != 5 || l.asked >= 5+strings.Count(text, "leads") {
			*wrong++
		}
		return nil
	}
}

func TestFaults(t *testing.T) {
	wrong := 0
	faulttest.Run(t, schedules, bill(&wrong, false, (*billing).lead))
	assert.Zero(t, wrong)
}

// TestFaultsRightBeforeASave also stops the process at instants when only the store can refuse a Save.
func TestFaultsRightBeforeASave(t *testing.T) {
	wrong := 0
	faulttest.RunFenced(t, schedules, bill(&wrong, true, (*billing).lead))
	assert.Zero(t, wrong)
}

// TestFaultsOfASaveBeforeTheCharge shows that an order is then left out.
func TestFaultsOfASaveBeforeTheCharge(t *testing.T) {
	wrong := 0
	faulttest.Run(t, schedules, bill(&wrong, false, func(b *billing, ctx context.Context, held *lock.Held, log *log.Logger) error {
		var done progress
		if data, token := held.State(); token != 0 {
			if err := json.Unmarshal(data, &done); err != nil {
				return err
			}
		}
		log.Printf("leads after order %d", done.Order)
		for done.Order < b.orders {
			cents := 100 * (done.Order + 1)
			done = progress{done.Order + 1, done.Cents + cents}
			if err := save(ctx, held, done); err != nil {
				return err
			}
			if _, err := b.service.charge(ctx, done.Order, cents); err != nil {
				return err
			}
		}
		log.Printf("all %d orders are billed: %d cents", done.Order, done.Cents)
		return nil
	}))
	assert.Positive(t, wrong)
}
