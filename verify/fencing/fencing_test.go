package fencing

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/fence"
)

func TestTheHighestTokenWins(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		run := func(resource string, token uint64) error {
			return fence.Tx(t.Context(), e.DB, e.dialect, resource, token, e.insert(token))
		}
		require.NoError(t, run("r", 7))
		require.NoError(t, run("r", 7), "the same holder again")
		assert.Equal(t, &fence.StaleError{Resource: "r", Token: 6, Highest: 7}, run("r", 6))
		require.NoError(t, run("r", 1<<53))
		assert.Equal(t, &fence.StaleError{Resource: "r", Token: 1<<53 - 1, Highest: 1 << 53}, run("r", 1<<53-1))
		for _, other := range []string{"R", "r ", "ŕ", ""} {
			require.NoError(t, run(other, 1), "%q is another resource", other)
		}
		assert.Equal(t, []uint64{7, 7, 1 << 53, 1, 1, 1, 1}, e.reports(t))
	})
}

func TestTheTokenIsPartOfTheTransaction(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		errJob := errors.New("the job failed")
		err := fence.Tx(t.Context(), e.DB, e.dialect, "r", 7, func(tx *sql.Tx) error {
			require.NoError(t, e.insert(7)(tx))
			return errJob
		})
		require.ErrorIs(t, err, errJob)
		require.NoError(t, fence.Tx(t.Context(), e.DB, e.dialect, "r", 6, e.insert(6)))
		assert.Equal(t, []uint64{6}, e.reports(t))
	})
}

// A later holder waits for a transaction that has passed its check, and an earlier one is
// rejected after it.
func TestATransactionIsNotOvertaken(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		for _, other := range []uint64{6, 8} {
			_, err := e.Exec("DELETE FROM fencing_tokens")
			require.NoError(t, err)
			_, err = e.Exec("DELETE FROM reports")
			require.NoError(t, err)
			checked, over := make(chan struct{}), make(chan error)
			go func() {
				<-checked
				over <- fence.Tx(t.Context(), e.DB, e.dialect, "r", other, e.insert(other))
			}()
			require.NoError(t, fence.Tx(t.Context(), e.DB, e.dialect, "r", 7, func(tx *sql.Tx) error {
				close(checked)
				for range 100 { // the time in which the other transaction reaches its check
					if err := e.insert(7)(tx); err != nil {
						return err
					}
				}
				return nil
			}))
			err = <-over
			want := slices.Repeat([]uint64{7}, 100)
			if other < 7 {
				require.ErrorIs(t, err, fence.ErrStale)
			} else {
				require.NoError(t, err)
				want = append(want, other)
			}
			assert.Equal(t, want, e.reports(t))
		}
	})
}

// A transaction with an old snapshot does not compare with an old token.
func TestAnOldSnapshotIsNotTrusted(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		require.NoError(t, fence.Tx(t.Context(), e.DB, e.dialect, "r", 5, e.insert(5)))
		level := sql.LevelRepeatableRead
		if e.dialect == fence.SQLite {
			level = sql.LevelDefault // always serializable
		}
		tx, err := e.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		var n int
		require.NoError(t, tx.QueryRow("SELECT COUNT(*) FROM reports").Scan(&n), "the snapshot begins")
		require.NoError(t, fence.Tx(t.Context(), e.DB, e.dialect, "r", 9, e.insert(9)))
		err = fence.CheckTx(t.Context(), tx, e.dialect, "r", 7)
		t.Log(err)
		require.Error(t, err)
		if e.dialect == fence.MySQL {
			require.ErrorIs(t, err, fence.ErrStale)
		}
	})
}

// Writers take their tokens in order and write in any order. The rows show that no writer
// has followed one with a higher token.
func TestWritesAreInTheOrderOfTheirTokens(t *testing.T) {
	const writers, each = 6, 40
	onEachEngine(t, func(t *testing.T, e engine) {
		var last atomic.Uint64
		var written, stale, failed atomic.Int64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					token := last.Add(1)
					switch err := fence.Tx(t.Context(), e.DB, e.dialect, "r", token, e.insert(token)); {
					case err == nil:
						written.Add(1)
					case errors.Is(err, fence.ErrStale):
						stale.Add(1)
					default:
						failed.Add(1)
						t.Log(err) // a deadlock, for example
					}
				}
			})
		}
		wg.Wait()
		tokens := e.reports(t)
		assert.True(t, slices.IsSorted(tokens), "%v", tokens)
		assert.Len(t, tokens, int(written.Load()))
		assert.Positive(t, written.Load())
		assert.Less(t, failed.Load(), int64(writers*each/2))
		t.Logf("%d written, %d stale, %d failed", written.Load(), stale.Load(), failed.Load())
	})
}

func TestCheckResultOnEachEngine(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		write := func(id string, n int, token uint64) error {
			r, err := e.Exec(e.query("UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?"), n, token, id, token)
			return fence.CheckResult(id, token, r, err, func() *sql.Row {
				return e.QueryRow(e.query("SELECT fence FROM stock WHERE id = ?"), id)
			})
		}
		require.NoError(t, write("apples", 7, 5))
		assert.Equal(t, &fence.StaleError{Resource: "apples", Token: 4, Highest: 5}, write("apples", 3, 4))
		err := write("pears", 3, 5)
		require.ErrorIs(t, err, sql.ErrNoRows)
		require.NotErrorIs(t, err, fence.ErrStale)
		err = write("apples", 7, 5)
		if e.dialect == fence.MySQL { // it counts changed rows unless clientFoundRows is set
			require.ErrorContains(t, err, "the driver counts changed rows only")
			require.NotErrorIs(t, err, fence.ErrStale)
		} else {
			require.NoError(t, err)
		}
	})
}

func TestCheckRowsOnEachEngine(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		_, err := e.Exec("INSERT INTO stock VALUES ('pears', 1, 0), ('plums', 1, 9)")
		require.NoError(t, err)
		write := func(token uint64, ids ...any) error {
			in := "id IN (?" + strings.Repeat(", ?", len(ids)-1) + ")"
			args := slices.Concat([]any{token}, ids, []any{token})
			r, err := e.Exec(e.query("UPDATE stock SET n = n + 1, fence = ? WHERE "+in+" AND fence <= ?"), args...)
			return fence.CheckRows("stock", token, int64(len(ids)), r, err, func() *sql.Row {
				return e.QueryRow(e.query("SELECT MAX(fence) FROM stock WHERE "+in), ids...)
			})
		}
		require.NoError(t, write(7, "apples", "pears"))
		err = write(8, "apples", "pears", "plums")
		require.ErrorIs(t, err, fence.ErrStale)
		require.ErrorContains(t, err, "wrote 2 of 3 rows")
		err = write(9, "apples", "pears", "figs")
		require.NotErrorIs(t, err, fence.ErrStale)
		require.ErrorContains(t, err, "wrote 2 of 3 rows")
		require.ErrorIs(t, write(9, "figs"), sql.ErrNoRows)
	})
}

// TestTokensThatAreNULL has a column without NOT NULL. No comparison is true of such a token.
func TestTokensThatAreNULL(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		for _, query := range []string{
			"DROP TABLE IF EXISTS loose", "CREATE TABLE loose (id VARCHAR(20) PRIMARY KEY, fence BIGINT)",
			"INSERT INTO loose VALUES ('a', NULL), ('b', 3), ('c', NULL)",
		} {
			_, err := e.Exec(query)
			require.NoError(t, err)
		}
		r, err := e.Exec("UPDATE loose SET fence = 7 WHERE id = 'a' AND fence <= 7")
		err = fence.CheckResult("a", 7, r, err, func() *sql.Row { return e.QueryRow("SELECT fence FROM loose WHERE id = 'a'") })
		require.NotErrorIs(t, err, sql.ErrNoRows, "there is a row")
		require.ErrorContains(t, err, `wrote no row of "a", because the stored token is NULL: it must begin with 0`)

		for in, want := range map[string]string{
			"('a', 'c')": `wrote 0 of 2 rows of "loose": the others do not exist, or their tokens are NULL`,
			"('a', 'b')": `wrote 1 of 2 rows of "loose", although no stored token is higher than 7: rows are missing, have the token NULL`,
		} {
			r, err := e.Exec("UPDATE loose SET fence = 7 WHERE id IN " + in + " AND fence <= 7")
			err = fence.CheckRows("loose", 7, 2, r, err, func() *sql.Row { return e.QueryRow("SELECT MAX(fence) FROM loose WHERE id IN " + in) })
			require.ErrorContains(t, err, want)
			require.NotErrorIs(t, err, fence.ErrStale)
		}
	})
}
