import Model

// The places of topics and devices. A topic hashes to a partition. A project has an order of all partitions,
// in which its devices fill them. The first one is the project's home: its owner keeps the quotas.
//
// All of this is part of the data's format: this hash is a topic's place for as long as the data lives. So
// the mixing is defined to the bit, pinned by test vectors, and must never change. A better hash would be a
// second one, chosen by the data's format version.
//
// `fold(a, b)` is the 128-bit product of two 64-bit numbers, its high half XOR its low half. `finish(x)` is,
// modulo 2^64,
//     x ^= x >> 32;  x *= 0xd6e8feb86659fd93;  x ^= x >> 29;  x *= 0xa0761d6478bd642f;  x ^= x >> 32
//
// Topic hash:  h = fold(project + 1, A) ^ B
//              for each whole 8 bytes of the name, read as a little-endian number w:
//                  h = fold(h ^ w, C) + w * A
//              with the rest (0 to 7 bytes, little-endian, zeros above) as w:
//                  h = fold(h ^ w, D) + w * A
//              h = finish(h ^ length * B)
// Weight of a partition for a project:  finish(fold(project + 1, C) + (partition + 1) * D)
// Range:  a hash h falls to the partition floor(h * count / 2^64).
//
// The term `w * A` is there because a fold alone forgets everything when `h ^ w` happens to be 0.

public enum Placement {
    static let a: UInt64 = 0x9e37_79b9_7f4a_7c15
    static let b: UInt64 = 0xe703_7ed1_a0b4_28db
    static let c: UInt64 = 0x8ebc_6af0_9c88_c6e3
    static let d: UInt64 = 0x5899_65cc_7537_4cc3

    /// The partition that holds a topic's subscription set. `count` is the number of partitions with which
    /// the data was created, 1...4,096.
    public static func partition(of topic: TopicName, in project: ProjectNumber, count: Int) -> PartitionID {
        partition(of: topic.utf8, in: project, count: count)
    }

    /// The same for a name that is still a run of bytes (already checked, without `/topics/`).
    @inlinable
    public static func partition(of name: some Collection<UInt8>, in project: ProjectNumber, count: Int)
        -> PartitionID
    {
        let hash =
            name.withContiguousStorageIfAvailable { Placement.hash($0, in: project) }
            ?? Array(name).withUnsafeBufferPointer { Placement.hash($0, in: project) }
        return reduce(hash, count: count)
    }

    /// All partitions, the heaviest for this project first: the order in which the project's devices fill
    /// them. The highest random weight gives each project its own order, and makes each partition first as
    /// often as any other. O(count log count): keep the answer, or the `DevicePlacement` made with it.
    public static func order(of project: ProjectNumber, count: Int) -> [PartitionID] {
        checkCount(count)
        let weighed = (0..<count).map {
            (weight: weight(of: UInt16($0), for: project), partition: UInt16($0))
        }
        return weighed.sorted { ($1.weight, $0.partition) < ($0.weight, $1.partition) }.map {
            PartitionID($0.partition)
        }
    }

    /// The first partition of the project's order, whose owner keeps the project's quotas.
    public static func home(of project: ProjectNumber, count: Int) -> PartitionID {
        checkCount(count)
        var best = (partition: UInt16(0), weight: weight(of: 0, for: project))
        for partition in 1..<UInt16(count) where count > 1 {
            let weight = weight(of: partition, for: project)
            if weight > best.weight { best = (partition, weight) }
        }
        return PartitionID(best.partition)
    }

    /// The 64-bit topic hash as described at the top of this file.
    public static func hash(_ name: UnsafeBufferPointer<UInt8>, in project: ProjectNumber) -> UInt64 {
        var state = fold(UInt64(project.rawValue) + 1, a) ^ b
        let bytes = UnsafeRawBufferPointer(name)
        var offset = 0
        while offset + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            state = fold(state ^ word, c) &+ word &* a
            offset += 8
        }
        var rest: UInt64 = 0
        var shift: UInt64 = 0
        while offset < bytes.count {
            rest |= UInt64(bytes[offset]) << shift
            shift += 8
            offset += 1
        }
        state = fold(state ^ rest, d) &+ rest &* a
        return finish(state ^ UInt64(bytes.count) &* b)
    }

    static func weight(of partition: UInt16, for project: ProjectNumber) -> UInt64 {
        finish(fold(UInt64(project.rawValue) + 1, c) &+ (UInt64(partition) + 1) &* d)
    }

    /// The partition that a hash falls to.
    public static func reduce(_ hash: UInt64, count: Int) -> PartitionID {
        checkCount(count)
        return PartitionID(UInt16(truncatingIfNeeded: hash.multipliedFullWidth(by: UInt64(count)).high))
    }

    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }

    private static func finish(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed ^= mixed >> 32
        mixed &*= 0xd6e8_feb8_6659_fd93
        mixed ^= mixed >> 29
        mixed &*= 0xa076_1d64_78bd_642f
        mixed ^= mixed >> 32
        return mixed
    }

    private static func checkCount(_ count: Int) {
        precondition((1...PartitionID.countMax).contains(count), "there are 1 to 4,096 partitions")
    }
}
