import Model

/// Who has the places for messages at the sender. One service may have half of a partition's places and one
/// project three quarters, so that a long fan-out or a slow service leaves some to the others.
struct PushPlaces {
    enum Room {
        case free
        /// The service has as many as it may have: its own answers make room.
        case originFull
        /// The project has, with its other services: each of their answers makes room.
        case projectFull
    }

    var byOrigin: [PushOrigin: Int] = [:]
    var byProject: [ProjectNumber: Int] = [:]
    /// Services for which a project had no place left, in the order in which they asked.
    private var turnedAway: [ProjectNumber: [PushOrigin]] = [:]

    func room(for origin: PushOrigin, of places: Int) -> Room {
        if byOrigin[origin] ?? 0 >= max(1, places / 2) { return .originFull }
        return byProject[origin.project] ?? 0 >= max(1, places * 3 / 4) ? .projectFull : .free
    }

    mutating func add(_ origin: PushOrigin) {
        byOrigin[origin, default: 0] += 1
        byProject[origin.project, default: 0] += 1
    }

    mutating func remove(_ origin: PushOrigin) {
        byOrigin[origin] = byOrigin[origin].flatMap { $0 > 1 ? $0 - 1 : nil }
        byProject[origin.project] = byProject[origin.project].flatMap { $0 > 1 ? $0 - 1 : nil }
    }

    mutating func turnAway(_ origin: PushOrigin) {
        guard !(turnedAway[origin.project]?.contains(origin) ?? false) else { return }
        turnedAway[origin.project, default: []].append(origin)
    }

    /// The service of the project whose turn it is, now that the project has a place again.
    mutating func next(of project: ProjectNumber) -> PushOrigin? {
        guard let first = turnedAway[project]?.first else { return nil }
        turnedAway[project]?.removeFirst()
        if turnedAway[project]?.isEmpty ?? true { turnedAway[project] = nil }
        return first
    }
}
