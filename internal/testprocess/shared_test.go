package testprocess

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAMissingServerIsNamedOnce(t *testing.T) {
	var out bytes.Buffer
	w := warner{out: &out}
	w.warn(&MissingError{"MariaDB", "mariadbd"})
	w.warn(&MissingError{"MariaDB", "mariadb-install-db"})
	w.warn(&MissingError{"PgBouncer", "pgbouncer"})
	assert.Equal(t, "WARNING: NOT TESTED ON MariaDB, because mariadbd is missing\n"+
		"WARNING: NOT TESTED ON PgBouncer, because pgbouncer is missing\n", out.String())
}

func TestOnlyCINeedsAllServers(t *testing.T) {
	missing := fmt.Errorf("launch: %w", &MissingError{"a server of this test", "a program"})
	t.Setenv("CI", "")
	assert.True(t, IsMissing(missing))
	assert.False(t, IsMissing(errors.New("another error")))
	assert.False(t, IsMissing(nil))
	t.Setenv("CI", "true")
	assert.False(t, IsMissing(missing))
}
