package full

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/internal/mutant"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// A mutant of a script needs no separate build: it replaces the script that the server gets.
func TestMutantsOfScripts(t *testing.T) {
	if skipMutants(t) {
		return
	}
	defer func() { mistake.from, mistake.to = "", "" }()
	wanted, caught, all := regexp.MustCompile(*mutantFlag), 0, 0
	for _, row := range slices.Concat(scriptMutants, wideScriptMutants) {
		name, file := row[0], row[1]
		if !wanted.MatchString(name) {
			continue
		}
		all++
		mistake.from = read(filepath.Join(simreport.Root(), file)) // the whole file, because other files may have the same line
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

// shows plays the sign of a mutant a few times, until a promise is broken.
func shows(t *testing.T, sign mutant.Sign) (how string) {
	for range 3 {
		var broken []string
		at := slices.IndexFunc(descriptions, func(one description) bool { return one.test() == sign.Test })
		if at >= 0 {
			broken = tell(t, descriptions[at])
		} else {
			broken = harness.Violations(t, sign.Seed)
		}
		if len(broken) > 0 {
			return cmp.Or(sign.Test, fmt.Sprintf("seed %d", sign.Seed)) + ": " + broken[0]
		}
	}
	return ""
}

// firstBroken plays schedules until one breaks a promise.
func firstBroken(t *testing.T) (how string) {
	for seed := range uint64(mutant.Seeds) {
		if broken := harness.Violations(t, seed); len(broken) > 0 {
			return fmt.Sprintf("seed %d: %s", seed, broken[0])
		}
	}
	return ""
}
