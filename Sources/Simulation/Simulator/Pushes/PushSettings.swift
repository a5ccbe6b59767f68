import Model
import Partitions

/// What operators have set for projects' push services. Now and then the setting names another account, so
/// that the service says of every device that it is not its own, until an operator puts the setting right.
struct PushSettings {
    /// The present setting of each service. Each change is a setting with its own number.
    private var numbers: [ProjectNumber: [Transport.Kind: UInt64]] = [:]
    private var wrong: Set<UInt64> = []
    private var last: UInt64 = 0

    subscript(project: ProjectNumber) -> [Transport.Kind: UInt64] { numbers[project] ?? [:] }

    func isWrong(_ number: UInt64) -> Bool { wrong.contains(number) }
    func isWrong(_ project: ProjectNumber, _ kind: Transport.Kind) -> Bool {
        numbers[project]?[kind].map(isWrong) ?? false
    }

    mutating func set(_ project: ProjectNumber, _ kind: Transport.Kind, isWrong: Bool) {
        last += 1
        if isWrong { wrong.insert(last) }
        numbers[project, default: [:]][kind] = last
    }
}

extension ClusterSimulation {
    func scheduleSettings() {
        guard options.changesSettings else { return }
        after(roll(options.settingsGapMax), .client) {
            guard self.isLoading, !self.isHealing else { return }
            let project = self.projects[Int(self.roll(UInt64(self.projects.count)))]
            let kind = Transport.Kind.allCases[Int(self.roll(UInt64(Transport.Kind.allCases.count)))]
            let isWrong = !self.pushSettings.isWrong(project, kind) && self.roll(4) > 0
            self.pushSettings.set(project, kind, isWrong: isWrong)
            if isWrong { self.count("wrong settings") }
            self.set(self.kinds(servedOf: project), of: project)
            self.scheduleSettings()
        }
    }

    /// An operator puts each setting right that is wrong.
    func mendSettings() {
        for project in projects {
            for kind in Transport.Kind.allCases where pushSettings.isWrong(project, kind) {
                pushSettings.set(project, kind, isWrong: false)
            }
        }
    }

    /// When everything has settled no address has a mark that came under a wrong setting
    /// (rule: one-word-ends-nothing). Marks of a service that is off stay.
    func wronglyMarked() -> [Violation] {
        guard options.changesSettings else { return [] }
        return slots.compactMap(\.process).filter(\.isRunning).flatMap(\.partitions).flatMap { partition in
            partition.markedAddresses.compactMap { _, project, stored in
                guard let mark = stored.mark, pushSettings.isWrong(mark.setting),
                    kinds(servedOf: project).contains(stored.transport.kind)
                else { return nil }
                return Violation(
                    "settings",
                    "partition \(partition.id.rawValue) keeps the mark of an address at"
                        + " \(stored.transport.kind.word) that came under a wrong setting")
            }
        }
    }
}
