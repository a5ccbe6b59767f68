import Model

/// Which partition a project's next device goes to.
///
/// A small project should be in one place, so that a send to its topics touches one partition; a large one
/// should be everywhere. So a project fills the first partition of its order with 4,096 devices, then the
/// second, and so on; after the last it begins a second lap, in which each may hold 8,192, and so on.
///
/// Only a partition knows how many devices of a project it holds. The caller therefore asks: it offers the
/// device with the lap's limit, and the partition registers it or refuses and says how many it holds. This
/// machine remembers where the last one fitted, and learns from what a refusal says: a node that has just
/// started reaches the right lap of a project with ten million devices by one refusal, not by thousands.
/// Several gateways may fill at once and each has its own machine; the limits are enforced where the devices
/// are, so they need not agree.
public struct DevicePlacement: Sendable {
    /// How many devices a partition takes in each lap.
    public static let devicesPerLap: UInt32 = 4096
    /// In this lap the limit is every index that a partition has.
    public static let lapMax: UInt32 = DeviceIndex.limit / devicesPerLap

    /// One partition to ask, and with which limit.
    public struct Offer: Hashable, Sendable {
        public var partition: PartitionID
        /// How many devices of the project the partition may hold, this one counted.
        public var limit: UInt32
    }

    private var order: [PartitionID]
    /// Invariant: 0 <= place < order.count, unless the order is empty.
    private var place = 0
    /// Invariant: 1 <= lap <= lapMax.
    private var lap: UInt32 = 1

    public init(project: ProjectNumber, count: Int) {
        order = Placement.order(of: project, count: count)
    }

    /// What to try next. `nil` when every partition has used up its indices.
    public var offer: Offer? {
        guard !order.isEmpty else { return nil }
        return Offer(partition: order[place], limit: lap * DevicePlacement.devicesPerLap)
    }

    /// The partition holds `devices` devices of the project, which is the offer's limit or more.
    /// An answer to an offer that is no longer the current one changes nothing, so that ten registrations
    /// under way at once move on by one partition and not by ten.
    public mutating func full(_ refused: Offer, holding devices: UInt32) {
        guard refused == offer else { return }
        let lapOfPartition = min(devices / DevicePlacement.devicesPerLap + 1, DevicePlacement.lapMax)
        if lapOfPartition > lap + 1 {
            // Far behind: whoever filled this partition so far has been all around that often.
            lap = lapOfPartition
            return
        }
        place += 1
        guard place == order.count else { return }
        place = 0
        if lap < DevicePlacement.lapMax { lap += 1 }
    }

    /// The partition has used up its indices, and will never take a device again.
    public mutating func closed(_ partition: PartitionID) {
        guard let gone = order.firstIndex(of: partition) else { return }
        order.remove(at: gone)
        if gone < place { place -= 1 }
        guard place == order.count else { return }
        place = 0
        if lap < DevicePlacement.lapMax { lap += 1 }
    }
}
