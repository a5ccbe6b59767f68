import Model
import Partitions

/// The marks of gone addresses that a checker has seen in one process, of its own and found ones, and the
/// most devices of each project in each partition.
struct GoneSeen {
    private struct Today: Hashable {
        var project: ProjectNumber
        var day: Day
    }
    private struct Mark: Hashable {
        var partition: PartitionID
        var generation: UInt64
    }
    private var marks: [Today: Set<Mark>] = [:]
    private var devices: [ProjectNumber: [PartitionID: Int]] = [:]

    mutating func look(at partition: Partition, _ projects: [ProjectNumber]) {
        for project in projects {
            let known = devices[project]?[partition.id] ?? 0
            devices[project, default: [:]][partition.id] = max(known, partition.deviceCount(of: project))
        }
        for (_, project, stored) in partition.markedAddresses {
            guard stored.isGone, let mark = stored.mark else { continue }
            marks[Today(project: project, day: mark.since.day), default: []].insert(
                Mark(partition: partition.id, generation: stored.generation))
        }
    }

    /// A project of which more addresses have got a mark in a day than may.
    func excess(_ options: PartitionOptions) -> (project: ProjectNumber, count: Int, most: Int)? {
        for (today, marks) in marks {
            let all = devices[today.project]?.values.reduce(0, +) ?? 0
            let most = max(options.goneFew, all / options.goneShare)
            if marks.count > most { return (today.project, marks.count, most) }
        }
        return nil
    }
}

extension PushChecks {
    /// In a day few addresses of a project may get the mark of a gone one (rule: one-word-ends-nothing). A
    /// lone node has all partitions; of those in a cluster some have marks of other nodes.
    func checkBrake(of process: SimulatedProcess) {
        guard world.options.brakes, process.lone != nil else { return }
        for partition in process.partitions { process.goneSeen.look(at: partition, world.projects) }
        guard let found = process.goneSeen.excess(world.options.partition) else { return }
        world.violate(
            "brake",
            "\(found.count) addresses of project \(found.project) are gone in a day, \(found.most) may be")
    }
}
