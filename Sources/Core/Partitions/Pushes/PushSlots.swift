import DequeModule
import Model

/// Who has the slots for messages at the sender. One service may have half of a partition's slots and one
/// project three quarters, so that a long fan-out or a slow service leaves some to the others.
struct PushSlots {
    enum Room {
        case free
        /// The service has as many as it may have: its own answers make room.
        case originFull
        /// The project has, with its other services: each of their answers makes room.
        case projectFull
    }

    var byOrigin: [PushOrigin: Int] = [:]
    var byProject: [ProjectNumber: Int] = [:]
    /// Services for which a project had no slot left.
    private var turnedAway: [ProjectNumber: Line] = [:]

    /// Services in the order in which they asked, each once. Clients choose some of them, so there may be
    /// many.
    private struct Line {
        var known: Set<PushOrigin> = []
        var order: Deque<PushOrigin> = []
    }

    func room(for origin: PushOrigin, of slots: Int) -> Room {
        if byOrigin[origin] ?? 0 >= PushSlots.ofOrigin(slots) { return .originFull }
        return byProject[origin.project] ?? 0 >= PushSlots.ofProject(slots) ? .projectFull : .free
    }

    /// The share of one service, and of one project.
    private static func ofOrigin(_ slots: Int) -> Int { max(1, slots / 2) }
    private static func ofProject(_ slots: Int) -> Int { max(1, slots * 3 / 4) }

    func brokenInvariant(of slots: Int) -> String? {
        if byOrigin.values.contains(where: { $0 > PushSlots.ofOrigin(slots) }) {
            return "a service has more slots than its share"
        }
        if byProject.values.contains(where: { $0 > PushSlots.ofProject(slots) }) {
            return "a project has more slots than its share"
        }
        return nil
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
        guard turnedAway[origin.project, default: Line()].known.insert(origin).inserted else { return }
        turnedAway[origin.project]?.order.append(origin)
    }

    /// The service of the project whose turn it is, now that the project has a slot again.
    mutating func next(of project: ProjectNumber) -> PushOrigin? {
        guard var line = turnedAway.removeValue(forKey: project) else { return nil }
        let first = line.order.removeFirst()
        line.known.remove(first)
        if !line.order.isEmpty { turnedAway[project] = line }
        return first
    }
}
