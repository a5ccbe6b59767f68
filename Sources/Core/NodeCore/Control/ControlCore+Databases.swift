extension ControlCore {
    /// Each look at a further database shows whether it is away; the loops learn of the home, which keeps the
    /// quotas' owners from granting.
    func lookAtDatabase(_ database: Int, failure: String?) {
        let wasAway = outages.since[database] != nil
        guard let note = outages.look(at: database, failure: failure, now: now) else { return }
        effects.append(.noted(note))
        isViewStale = true
        let isAway = failure != nil
        if database == 0, wasAway != isAway { effects.append(.orderAll(.home(isAway: isAway))) }
    }

    /// A look at the home has failed. The home is away when ownership says so: one failed look is no outage.
    func homeFailed(_ reason: String) {
        if case .unreachable = ownership.status { lookAtDatabase(0, failure: reason) }
    }
}
