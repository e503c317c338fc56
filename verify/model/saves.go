// The state that a holder leaves to the next one.

package model

// saveActions visits the actions of the saves of an owner.
func (w *walk) saveActions(i int, o *Owner) {
	if w.Saves == 0 {
		return
	}
	r := &o.Saves
	step := func(what ActionKind) { w.step(what, i, 0) }
	if o.Phase == Held && o.Left > 0 && r.Calls < w.Saves {
		step(SendSave)
	}
	if o.Phase == Held && w.Mutation == RepeatIsNumbered && r.Calls == w.Saves && r.Repeat == 0 {
		step(RepeatSave)
	}
	if o.Phase == Held && r.Denied == 1 {
		step(TakeDenied)
	}
	for c := range int(r.Calls) {
		w.step(DoSave, i, c)
	}
	if r.Looked > 0 {
		step(DoSaveWrite)
	}
}

// applySave applies an action of the saves of an owner.
func (m *Model) applySave(s *State, what ActionKind, i, c int) string {
	o := &s.Owners[i]
	switch what {
	case SendSave:
		o.Saves.Token = o.Token
		o.Saves.Calls++
	case RepeatSave:
		o.Saves.Repeat = o.Saves.Calls + 1
	case TakeDenied:
		return m.checkLoss(s, i, m.Rules.lose(o))
	case DoSave:
		return m.doSave(s, i, uint8(c)+1) //nolint:gosec // at most Config.Saves
	case DoSaveWrite:
		save := Saved{o.Saves.Token, o.Saves.Looked, o.Saves.Looked}
		o.Saves.Looked = 0
		s.keep(i, save)
		s.Server.Saved = save
	}
	return ""
}

// keep notes a save that is executed. If its owner is the holder, World.Kept becomes that state,
// unless a later call of the same lease was executed before.
func (s *State) keep(i int, save Saved) (mine bool) {
	v, kept := &s.Server, &s.World.Kept
	mine = v.Records[i].Holds == 1 && v.Token == save.Token
	if mine && (kept.Token != save.Token || kept.Call < save.Call) {
		*kept = save
	}
	return mine
}

// doSave executes the request of a call. An answer "stored" counts as received at once, so
// World.Kept has every save that was confirmed.
func (m *Model) doSave(s *State, i int, call uint8) string {
	r, before := &s.Owners[i].Saves, s.Server
	save := Saved{r.Token, call, call}
	if call == 1 && r.Repeat > 0 {
		save.Number = r.Repeat
	}
	if m.Mutation == SaveInTwoSteps {
		probe := before
		if m.scripts(s).Save(&probe, i, save); probe != before {
			r.Looked = call
		}
		return ""
	}
	mine := s.keep(i, save)
	reply := m.scripts(s).Save(&s.Server, i, save)
	if reply.Code == NotHeld {
		r.Denied = 1
	}
	changed := before
	changed.Saved = s.Server.Saved
	switch {
	case !mine && (reply.Code == Stored || s.Server != before):
		return "S11: a save of an earlier holder is confirmed or changes the state"
	case s.Server != changed:
		return "S4: a save changes a lease"
	}
	return ""
}

// checkTold checks that a waiter that was granted the lock was given what the holders before have
// saved.
func (m *Model) checkTold(s *State, i int) string {
	o, v := &s.Owners[i], &s.Server
	mine := v.Records[i].Holds == 1 && v.Token == o.Token
	if m.Saves > 0 && o.Phase == Held && mine && o.Told != s.World.Kept {
		return "S11: a grant does not tell the state"
	}
	return ""
}

// Save is save.lua.
func (x Scripts) Save(v *Server, o int, save Saved) Reply {
	mine := v.Records[o].Holds == 1 && v.Token == save.Token
	switch x.Mutation {
	case SaveOfAnyone:
		mine = true
	case SaveOfAnyToken:
		mine = v.Records[o].Holds == 1
	}
	if !mine {
		return Reply{Code: NotHeld}
	}
	old := v.Saved
	newer := old.Token != save.Token || old.Number < save.Number
	switch x.Mutation {
	case SaveUnnumbered:
		newer = true
	case NumberOfAnyLease:
		newer = old.Number < save.Number
	case RepeatIsDenied:
		if !newer {
			return Reply{Code: NotHeld}
		}
	}
	if newer {
		v.Saved = save
	}
	return Reply{Code: Stored}
}
