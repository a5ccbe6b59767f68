import Model
import Testing

@testable import Placement

private func hash(_ name: String, _ project: UInt32) -> UInt64 {
    Array(name.utf8).withUnsafeBufferPointer { Placement.hash($0, in: ProjectNumber(project)) }
}

/// The definition at the top of Placement.swift, written once more with 128-bit numbers and no shortcuts.
private func hashByDefinition(_ name: [UInt8], _ project: UInt32) -> UInt64 {
    let (a, b): (UInt64, UInt64) = (0x9e37_79b9_7f4a_7c15, 0xe703_7ed1_a0b4_28db)
    let (c, d): (UInt64, UInt64) = (0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3)
    func fold(_ x: UInt64, _ y: UInt64) -> UInt64 {
        let product = UInt128(x) * UInt128(y)
        return UInt64(truncatingIfNeeded: product >> 64) ^ UInt64(truncatingIfNeeded: product)
    }
    func number(_ bytes: some Collection<UInt8>) -> UInt64 {
        bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
    var h = fold(UInt64(project) + 1, a) ^ b
    let whole = name.count / 8 * 8
    for start in stride(from: 0, to: whole, by: 8) {
        let w = number(name[start..<start + 8])
        h = fold(h ^ w, c) &+ w &* a
    }
    let w = number(name[whole...])
    h = fold(h ^ w, d) &+ w &* a
    var x = h ^ UInt64(name.count) &* b
    x ^= x >> 32
    x = x &* 0xd6e8_feb8_6659_fd93
    x ^= x >> 29
    x = x &* 0xa076_1d64_78bd_642f
    return x ^ (x >> 32)
}

@Suite("The placement of topics") struct TopicPlacement {
    @Test("the hash is part of the data's format: these values never change")
    func pinned() {
        let expected: [(String, UInt32, UInt64)] = [
            ("", 0, 0x1ede_b8db_ef66_72c7), ("a", 1, 0xfc90_5b67_af80_d32f),
            ("news", 1, 0x69f2_bf01_4588_1062), ("news", 2, 0x493c_c1b9_9482_bdbf),
            ("weather", 1, 0x3de9_3776_b5b8_d010), ("12345678", 7, 0x8c1a_9562_d966_f647),
            ("a.topic~of%20twenty-b", 16_777_215, 0x0f47_ba98_085f_39d2),
        ]
        for (name, project, value) in expected { #expect(hash(name, project) == value, "\(name)") }
        let partitions = ["news", "weather", "a"].map {
            Placement.partition(of: TopicName(checked: Array($0.utf8)), in: ProjectNumber(1), count: 32)
                .rawValue
        }
        #expect(partitions == [13, 7, 31])
    }

    @Test("the fast hash is the one that is written down, for every length and alignment")
    func twin() {
        var random = SeededGenerator(seed: 1)
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...70, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let start = Int.random(in: 0...bytes.count, using: &random)
            let project = UInt32.random(in: 0..<ProjectNumber.limit, using: &random)
            let value = bytes[start...].withUnsafeBufferPointer {
                Placement.hash($0, in: ProjectNumber(project))
            }
            #expect(value == hashByDefinition(Array(bytes[start...]), project))
        }
    }

    @Test("an array, a slice and a buffer of the same bytes fall to the same partition")
    func forms() {
        let bytes = Array("xxnews".utf8)
        let project = ProjectNumber(1)
        let slice = bytes[2...]
        let expected = Placement.partition(of: TopicName(checked: Array(slice)), in: project, count: 256)
        #expect(Placement.partition(of: slice, in: project, count: 256) == expected)
        #expect(Placement.partition(of: "news".utf8, in: project, count: 256) == expected)
        slice.withUnsafeBufferPointer {
            #expect(Placement.partition(of: $0, in: project, count: 256) == expected)
        }
    }

    @Test(
        "names that differ in little spread evenly over the partitions (chi-squared below 1 in a million)",
        arguments: [2, 31, 32, 256, 4096])
    func even(count: Int) {
        for style in 0..<3 {
            var held = [Int](repeating: 0, count: count)
            let total = max(100_000, count * 100)
            for number in 0..<total {
                let name =
                    switch style {
                    case 0: "\(number)"
                    case 1: "user-\(number)-alerts"
                    default: String(repeating: "a", count: number % 60) + "\(number / 60)"
                    }
                let utf8 = Array(name.utf8)
                held[Int(Placement.partition(of: utf8, in: ProjectNumber(3), count: count).rawValue)] += 1
            }
            let expected = Double(total) / Double(count)
            let chi = held.reduce(0.0) { $0 + (Double($1) - expected) * (Double($1) - expected) / expected }
            let freedom = Double(count - 1)
            #expect(chi < freedom + 5 * (2 * freedom).squareRoot() + 20, "style \(style): \(chi)")
        }
    }

    @Test("one flipped bit of the name changes half of the hash's bits")
    func avalanche() {
        var random = SeededGenerator(seed: 2)
        var flips = [Int](repeating: 0, count: 64)
        let rounds = 20_000
        for _ in 0..<rounds {
            var bytes = (0..<Int.random(in: 1...40, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let before = bytes.withUnsafeBufferPointer { Placement.hash($0, in: ProjectNumber(9)) }
            bytes[Int.random(in: 0..<bytes.count, using: &random)] ^=
                1 << UInt8.random(in: 0...7, using: &random)
            let after = bytes.withUnsafeBufferPointer { Placement.hash($0, in: ProjectNumber(9)) }
            for bit in 0..<64 where (before ^ after) >> UInt64(bit) & 1 == 1 { flips[bit] += 1 }
        }
        for bit in 0..<64 { #expect(abs(flips[bit] - rounds / 2) < rounds / 20, "bit \(bit)") }
    }

    @Test("a length is part of the name: zero bytes at the end make another topic")
    func length() {
        #expect(hash("a", 1) != hash("a\0", 1))
        #expect(hash("", 1) != hash("\0\0\0\0\0\0\0\0", 1))
    }
}

@Suite("The order of a project's partitions") struct ProjectOrder {
    @Test("a project's order is part of the data's format: these never change")
    func pinned() {
        #expect(Placement.order(of: ProjectNumber(1), count: 8).map(\.rawValue) == [4, 2, 3, 6, 5, 1, 0, 7])
        #expect(Placement.order(of: ProjectNumber(2), count: 8).map(\.rawValue) == [6, 0, 2, 7, 1, 4, 5, 3])
    }

    @Test("the order names each partition once, and its first is the home")
    func permutation() {
        for count in [1, 2, 3, 32, 256, 4096] {
            for project in [UInt32(1), 2, 77, ProjectNumber.limit - 1].map(ProjectNumber.init) {
                let order = Placement.order(of: project, count: count)
                #expect(Set(order).count == count && order.count == count)
                #expect(Placement.home(of: project, count: count) == order[0])
            }
        }
    }

    @Test("with more partitions the old ones keep their order among each other")
    func rendezvous() {
        let small = Placement.order(of: ProjectNumber(5), count: 32)
        let large = Placement.order(of: ProjectNumber(5), count: 256)
        #expect(large.filter { $0.rawValue < 32 } == small)
    }

    @Test("homes of successive projects are spread over all partitions")
    func homes() {
        var held = [Int](repeating: 0, count: 32)
        for project in 1...32_000 {
            held[Int(Placement.home(of: ProjectNumber(UInt32(project)), count: 32).rawValue)] += 1
        }
        #expect(held.allSatisfy { (850...1150).contains($0) }, "\(held)")
    }
}
