import Model

/// Which partition a project's next device goes to.
///
/// A small project should be in one place, so that a send to its topics touches one partition. A large
/// project should be everywhere. So a project fills the first partition of its order with 4,096 devices, then
/// the second, and so on. After the last partition a second lap begins, in which each partition may hold
/// 8,192, and so on.
///
/// Only a partition knows how many devices of a project it holds, so the caller asks. The caller offers the
/// device with the lap's limit, and the partition registers the device, or refuses and says how many it
/// holds. This machine remembers the partition that took the last device, and learns from each refusal: a
/// node that has just started reaches the right lap of a project with ten million devices by one refusal, not
/// by thousands. A total for the project gives each partition a share, which goes with the offers as their
/// limit. When all partitions have refused, the machine offers nothing until the caller calls `lookAgain`.
///
/// Several gateways may fill partitions simultaneously, each with its own machine. The partitions enforce the
/// limits, so the machines need not agree.
public struct DevicePlacement: Sendable {
    /// How many devices a partition takes in each lap.
    public static let devicesPerLap: UInt32 = 4096
    /// In this lap the limit is every index that a partition has.
    public static let lapMax: UInt32 = DeviceIndex.limit / devicesPerLap

    /// A partition to ask, and the limit for this partition.
    public struct Offer: Hashable, Sendable {
        public var partition: PartitionID
        /// How many devices of the project the partition may hold, the offered one included.
        public var limit: UInt32
    }

    /// Devices that the project may have, in all partitions together.
    public let most: UInt64
    /// Partitions in the project's order, each with its share of the project's `most` devices, filled lap by
    /// lap. The partitions' shares keep the total, although no process counts it.
    private var order: [(partition: PartitionID, share: UInt32)]
    /// Laps in which all partitions take the same number of devices.
    private let sharedLaps: UInt32
    /// Invariant: 0 <= index < order.count, unless the order is empty.
    private var index = 0
    /// Invariant: 1 <= lap <= lapMax.
    private var lap: UInt32 = 1
    /// Whether the machine has found that every partition holds its share.
    public private(set) var isFull = false

    public init(project: ProjectNumber, count: Int, most: UInt64 = .max) {
        self.most = most
        let lap = UInt64(DevicePlacement.devicesPerLap)
        let (laps, rest) = most.quotientAndRemainder(dividingBy: lap * UInt64(max(count, 1)))
        order = Placement.order(of: project, count: count).enumerated().map { index, partition in
            let before = UInt64(index) * lap
            let last = rest > before ? min(rest - before, lap) : 0
            return (partition, UInt32(min(laps * lap + last, UInt64(DeviceIndex.limit))))
        }
        let least = order.map(\.share).min() ?? 0
        sharedLaps = max(1, least / DevicePlacement.devicesPerLap)
        skip()
    }

    /// The next partition to try. `nil` if every partition has used up its indices, or holds its share of
    /// the project's `most` devices.
    public var offer: Offer? {
        guard !order.isEmpty, !isFull else { return nil }
        return Offer(partition: order[index].partition, limit: min(lapLimit, order[index].share))
    }

    private var lapLimit: UInt32 { lap * DevicePlacement.devicesPerLap }

    /// Begins again with the first partition, because devices may be gone by now.
    public mutating func lookAgain() {
        (index, lap, isFull) = (0, 1, false)
        skip()
    }

    /// Goes on to the next partition that may take devices in its lap.
    private mutating func goOn() {
        index += 1
        if index == order.count { endLap() }
        skip()
    }

    private mutating func endLap() {
        index = 0
        guard lap < DevicePlacement.lapMax else { return }
        lap += 1
    }

    /// Passes over partitions whose share ends in an earlier lap.
    private mutating func skip() {
        let begins = (lap - 1) * DevicePlacement.devicesPerLap
        guard order.contains(where: { $0.share > begins }) else { return isFull = !order.isEmpty }
        while order[index].share <= begins {
            index += 1
            if index == order.count { return wrap() }
        }
    }

    private mutating func wrap() {
        endLap()
        skip()
    }

    /// The partition refused: it holds `devices` devices of the project, which is the offer's limit or more.
    /// A refusal of an offer that is no longer the current one changes nothing. So ten registrations that are
    /// under way at once move on by one partition, not by ten.
    public mutating func full(_ refused: Offer, holding devices: UInt32) {
        guard refused == offer else { return }
        let lapOfPartition = min(
            devices / DevicePlacement.devicesPerLap + 1, DevicePlacement.lapMax, sharedLaps)
        if lapOfPartition > lap + 1 {
            // This machine is far behind: other machines have filled all partitions in that many laps.
            lap = lapOfPartition
            return skip()
        }
        goOn()
    }

    /// The partition has used up its indices, and will never take a device again.
    public mutating func closed(_ partition: PartitionID) {
        guard let gone = order.firstIndex(where: { $0.partition == partition }) else { return }
        order.remove(at: gone)
        if gone < index { index -= 1 }
        if index == order.count { endLap() }
        if !order.isEmpty { skip() }
    }
}
