package whole

import (
	"cmp"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
		mutant.Test(t, mutants, signs, *mutantFlag, report)
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
		mistake.from = read(filepath.Join("../..", file)) // all of it, for others may have the same line
		assert.Equal(t, 1, strings.Count(mistake.from, row[2]), "the place of %q", name)
		mistake.to = strings.Replace(mistake.from, row[2], row[3], 1)
		how := shows(t, signs[name])
		if how == "" {
			how = firstBroken(t)
		}
		if assert.NotEmpty(t, how, "%s survived %d schedules", name, mutant.Seeds) {
			caught++
			report.Add("mutant      %s: %s", name, how)
			t.Logf("%s: %s", name, how)
		}
	}
	report.Add("mutants     %d of %d in scripts caught", caught, all)
}

// shows plays what shows a mistake, a few times, until a promise is broken.
func shows(t *testing.T, sign mutant.Sign) (how string) {
	for range 3 {
		var r part.Result
		at := slices.IndexFunc(stories, func(one told) bool { return one.test() == sign.Test })
		if at >= 0 {
			r = tell(t, stories[at])
		} else {
			r = play(t, sign.Seed, nil)
		}
		if len(r.Violations) > 0 {
			return cmp.Or(sign.Test, fmt.Sprintf("seed %d", sign.Seed)) + ": " + r.Violations[0]
		}
	}
	return ""
}

// firstBroken plays schedules until one breaks a promise.
func firstBroken(t *testing.T) (how string) {
	for seed := range uint64(mutant.Seeds) {
		if r := play(t, seed, nil); len(r.Violations) > 0 {
			return fmt.Sprintf("seed %d: %s", seed, r.Violations[0])
		}
	}
	return ""
}

// The quick tier itself sees each mutant: what shows them is played in every run.
func TestSigns(t *testing.T) {
	signs.Check(t, scriptMutants, mutants)
	seeds := signs.Schedules()
	for _, seed := range seeds {
		held(t, seed, play(t, seed, nil))
	}
	report.Add("signs       %d schedules", len(seeds))
}
