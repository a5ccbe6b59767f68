import Model
import Testing

@testable import LoadGenerator

@Suite("Histogram")
struct HistogramTests {
    @Test("keeps every value in a bucket whose ends are within 1/64 of it")
    func precision() {
        var values: [UInt64] = Array(0..<1000)
        for shift in 10..<64 { values += [1 << shift, 1 << shift + 1, (1 << shift) - 1, 3 << (shift - 2)] }
        values.append(.max)
        for value in values {
            let bucket = Histogram.bucket(of: value)
            let end = Histogram.upperEnd(of: bucket)
            #expect(end >= value)
            #expect(end - value <= value / 64, "\(value)")
            #expect(Histogram.bucket(of: end) == bucket)
            if value > 0 { #expect(Histogram.bucket(of: value - 1) <= bucket) }
        }
    }

    @Test("gives the percentiles of a sorted list, to its precision", arguments: [1, 7, 100, 12_345])
    func percentiles(count: Int) {
        var random = SeededGenerator(seed: UInt64(count))
        let values = (0..<count).map { _ in UInt64.random(in: 0..<10_000_000, using: &random) }.sorted()
        var histogram = Histogram()
        for value in values.shuffled(using: &random) { histogram.record(value) }
        for fraction in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[max(0, Int((Double(count) * fraction).rounded(.up)) - 1)]
            let found = histogram.percentile(fraction)
            #expect(found >= exact && found <= exact + exact / 64 + 1, "\(fraction)")
        }
        #expect(histogram.max == values.last)
        #expect(histogram.percentile(1) == histogram.max)
    }

    @Test("has nothing to say where nothing was recorded")
    func empty() {
        #expect(Histogram().percentile(0.5) == 0 && Histogram().mean == 0 && Histogram().max == 0)
    }
}

@Suite("Sequence window")
struct SequenceWindowTests {
    @Test("tells order, lateness and repeats apart")
    func verdicts() {
        var window = SequenceWindow(from: 5)
        #expect(window.note(5) == .inOrder)
        #expect(window.note(7) == .early)
        #expect(window.note(7) == .duplicate)
        #expect(window.note(6) == .late)
        #expect(window.next == 8)
        #expect(window.note(6) == .duplicate)
        #expect(window.note(8) == .inOrder)
        #expect(window.missing(below: 12) == 3)
        #expect(window.note(100) == .jump)
        #expect(window.lost == 91 && window.missing(below: 101) == 91)
    }

    @Test(
        "agrees with a set of what came, for any order within the window",
        arguments: 1...20 as ClosedRange<UInt64>)
    func twin(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var window = SequenceWindow(from: 0)
        var came: Set<Int> = []
        for _ in 0..<2000 {
            let number = Int.random(in: max(0, window.next - 5)..<(window.next + 64), using: &random)
            let isNew = came.insert(number).inserted
            #expect((window.note(number) != .duplicate) == isNew)
        }
        let end = window.next + 64
        #expect(window.missing(below: end) == end - came.count)
        #expect((0..<window.next).allSatisfy(came.contains) && !came.contains(window.next))
    }

    @Test("takes a full window at once")
    func full() {
        var window = SequenceWindow(from: 0)
        for number in (0..<64).reversed() { _ = window.note(number) }
        #expect(window.next == 64 && window.missing(below: 64) == 0 && window.note(64) == .inOrder)
    }
}
