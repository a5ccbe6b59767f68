import Model

/// A partition asks whether one more address of a project may get the mark of a gone address today.
public struct GoneAsk: Sendable {
    public var project: ProjectNumber
    public var partition: PartitionID
    public var day: Day
    /// The partition's marks of the day that its first question of the day found.
    public var found: Int
    /// The loop, and the project's devices on it.
    public var loop = 0
    public var devices: Int
    /// So many marks are permitted in any case, and one in so many of the project's devices.
    public var few: Int
    public var share: Int
}

/// What answers such a question for all partitions of a process.
public protocol GoneBrake: AnyObject {
    func take(_ ask: GoneAsk) -> GoneTally.Verdict
}

/// How many addresses of each project one process has marked as gone in a day, with those that its
/// partitions have found (rule: one-word-ends-nothing). All loops of a process share one tally.
public struct GoneTally: Sendable {
    public enum Verdict: Sendable {
        case mark
        /// `isFirst`: no other answer of the project was held that day.
        case hold(isFirst: Bool)
    }
    private struct Project {
        var marks: [PartitionID: Int] = [:]
        /// By loop, as of its last question.
        var devices: [Int: Int] = [:]
        var isTold = false
    }
    /// Days that are remembered, because partitions' clocks may differ.
    private static let daysMax = 4
    /// The last used day is first.
    private var days: [(day: Day, projects: [ProjectNumber: Project])] = []

    public init() {}

    private mutating func use(_ day: Day) {
        let at = days.firstIndex { $0.day == day }
        let known = at.map { days.remove(at: $0) } ?? (day, [:])
        days.insert(known, at: 0)
        if days.count > GoneTally.daysMax { days.removeLast() }
    }

    /// A partition has found marks of the day: of an earlier owner, or of an earlier process.
    public mutating func note(_ found: [ProjectNumber: Int], of partition: PartitionID, on day: Day) {
        guard !found.isEmpty else { return }
        use(day)
        for (project, count) in found {
            let known = days[0].projects[project]?.marks[partition] ?? 0
            days[0].projects[project, default: Project()].marks[partition] = max(known, count)
        }
    }

    /// Counts the mark if it is permitted.
    public mutating func take(_ ask: GoneAsk) -> Verdict {
        use(ask.day)
        var project = days[0].projects[ask.project] ?? Project()
        defer { days[0].projects[ask.project] = project }
        project.devices[ask.loop] = ask.devices
        let own = max(project.marks[ask.partition] ?? 0, ask.found)
        project.marks[ask.partition] = own
        let most = max(ask.few, project.devices.values.reduce(0, +) / ask.share)
        if project.marks.values.reduce(0, +) < most {
            project.marks[ask.partition] = own + 1
            return .mark
        }
        defer { project.isTold = true }
        return .hold(isFirst: !project.isTold)
    }
}

extension Partition {
    public func deviceCount(of project: ProjectNumber) -> Int {
        state.devices.counts[project.rawValue] ?? 0
    }

    /// The addresses with a mark, each with its device and the device's project.
    public var markedAddresses: [(index: UInt32, project: ProjectNumber, stored: StoredTransport)] {
        Transport.Kind.allCases.flatMap { kind in
            state.transports.marked(kind).compactMap { index in
                state.transports[index]?.first { $0.transport.kind == kind }.map {
                    (index, ProjectNumber(state.devices.project(index)), $0)
                }
            }
        }
    }

    /// How many addresses of each project have a mark of that day which an owner has believed.
    public func goneMarks(on day: Day) -> [ProjectNumber: Int] {
        var counts: [ProjectNumber: Int] = [:]
        for (_, project, stored) in markedAddresses where stored.isGone && stored.mark?.since.day == day {
            counts[project, default: 0] += 1
        }
        return counts
    }

    /// Whether one more address of the project may get the mark of a gone address today.
    func mayEnd(_ origin: PushOrigin, _ turn: inout Turn) -> Bool {
        let today = today(turn.now)
        if pushes.foundGone.day != today { pushes.foundGone = (today, goneMarks(on: today)) }
        let ask = GoneAsk(
            project: origin.project, partition: id, day: today,
            found: pushes.foundGone.counts[origin.project] ?? 0, devices: deviceCount(of: origin.project),
            few: options.goneFew, share: options.goneShare)
        let verdict: GoneTally.Verdict
        if let brake, !isBrakedAlone {
            verdict = brake.take(ask)
        } else {
            verdict = pushes.goneTally.take(ask)
        }
        guard case .hold(let isFirst) = verdict else { return true }
        if isFirst { turn.effects.append(.notice(.goneHeld(origin.project, origin.kind))) }
        return false
    }

    /// A planted bug.
    private var isBrakedAlone: Bool {
        #if DEBUG
            return options.planted.contains(.brakeAlone)
        #else
            return false
        #endif
    }
}
