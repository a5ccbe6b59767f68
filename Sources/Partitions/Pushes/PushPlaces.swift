import Model

/// Who has the places for messages at the sender. One service may have half of a partition's places and one
/// project three quarters, so that a long fan-out or a slow service leaves some to the others.
struct PushPlaces {
    var byOrigin: [PushOrigin: Int] = [:]
    var byProject: [ProjectNumber: Int] = [:]

    /// Whether the service or its project has as many as it may have.
    func isFull(_ origin: PushOrigin, of places: Int) -> Bool {
        byOrigin[origin] ?? 0 >= max(1, places / 2)
            || byProject[origin.project] ?? 0 >= max(1, places * 3 / 4)
    }

    mutating func add(_ origin: PushOrigin) {
        byOrigin[origin, default: 0] += 1
        byProject[origin.project, default: 0] += 1
    }

    mutating func remove(_ origin: PushOrigin) {
        byOrigin[origin] = byOrigin[origin].flatMap { $0 > 1 ? $0 - 1 : nil }
        byProject[origin.project] = byProject[origin.project].flatMap { $0 > 1 ? $0 - 1 : nil }
    }
}
