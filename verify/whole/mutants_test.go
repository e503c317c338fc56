package whole

import (
	"flag"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/mutant"
	"github.com/leasewheel/leasewheel/verify/part"
)

var mutantFlag = flag.String("mutant", "", "test the mutants whose names match this, whatever the tier")

func skipMutants(t *testing.T) bool {
	skip := !part.IsLong() && *mutantFlag == ""
	if skip {
		t.Log("the mutants are for the tiers above quick, or -mutant .")
	}
	return skip
}

func TestMutants(t *testing.T) {
	if !skipMutants(t) {
		mutant.Test(t, mutants, *mutantFlag, report)
	}
}

// A mistake in a script needs no other program: it is put into what the server is sent.
func TestMutantsOfScripts(t *testing.T) {
	if skipMutants(t) {
		return
	}
	defer func() { mistake.from, mistake.to = "", "" }()
	wanted, caught, all := regexp.MustCompile(*mutantFlag), 0, 0
	for _, row := range scriptMutants {
		name, file := row[0], row[1]
		if !wanted.MatchString(name) {
			continue
		}
		all++
		assert.Contains(t, read(filepath.Join("../..", file)), row[2], "the place of %q", name)
		mistake.from, mistake.to = row[2], row[3]
		seed, how := firstBroken(t)
		if assert.NotEmpty(t, how, "%s survived %d schedules", name, mutant.Seeds) {
			caught++
			report.Add("mutant      %s: seed %d, %s", name, seed, how)
			t.Logf("%s: seed %d, %s", name, seed, how)
		}
	}
	report.Add("mutants     %d of %d in scripts caught", caught, all)
}

// firstBroken plays schedules until one breaks a promise.
func firstBroken(t *testing.T) (seed uint64, how string) {
	for seed := range uint64(mutant.Seeds) {
		if r := play(t, seed, nil); len(r.Violations) > 0 {
			return seed, r.Violations[0]
		}
	}
	return 0, ""
}
