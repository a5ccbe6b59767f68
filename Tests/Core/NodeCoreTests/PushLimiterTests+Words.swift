import Model
import Partitions
import Testing

@testable import NodeCore

extension PushLimiterTests {
    /// The witness in the limiter's report of a job; `nil` where the limiter believes the word, or says
    /// something else.
    private func witness(_ world: World, _ job: UInt64) -> PushWitness? {
        if case .doubted(_, let witness, _) = world.reports[job] { witness } else { nil }
    }

    private func says(
        _ world: World, _ outcome: PushOutcome = .gone, after witness: PushWitness? = nil, tries: Int = 0
    ) -> UInt64 {
        let job = world.submit(tries: tries, after: witness)
        world.answer(outcome)
        return job
    }

    private func takes(_ world: World) {
        world.submit()
        world.answer(.accepted)
    }

    @Test("a device is gone where its service says so twice, and has taken another message between")
    func secondWord() throws {
        let world = World()
        takes(world)
        let first = try #require(witness(world, says(world, .gone)))
        world.pass(seconds: 10)
        takes(world)
        #expect(world.reports[says(world, .gone, after: first)] == .gone)
        #expect(world.alarms == 0)
    }

    @Test("a second word is not believed where the service has taken nothing since, or what was under way")
    func nothingBetween() throws {
        let world = World()
        takes(world)
        let first = try #require(witness(world, says(world)))
        // An answer that was on its way with the first word.
        world.pass(seconds: 4)
        takes(world)
        world.pass(seconds: 10)
        #expect(witness(world, says(world, after: first)) == first)
        takes(world)
        // Another device's first word is the last news.
        _ = says(world)
        #expect(witness(world, says(world, after: first)) == first)
        takes(world)
        #expect(world.reports[says(world, after: first)] == .gone)
    }

    @Test("a word is a lonely one only while the service says so of one device")
    func alone() throws {
        let world = World()
        func isAlone(_ job: UInt64) -> Bool? {
            if case .doubted(_, _, let isAlone) = world.reports[job] { isAlone } else { nil }
        }
        let one = says(world)
        let first = try #require(witness(world, one))
        #expect(isAlone(one) == true && isAlone(says(world, after: first)) == true)
        let other = says(world)
        #expect(isAlone(other) == false && isAlone(says(world, after: first)) == false)
    }

    @Test("a second word is not believed when the service has taken nothing for an hour")
    func longAgo() throws {
        let world = World()
        let first = try #require(witness(world, says(world)))
        world.pass(seconds: 10)
        takes(world)
        world.pass(seconds: 3601)
        #expect(witness(world, says(world, after: first)) == first)
    }

    @Test("a service that says it of more than half of its devices is not believed")
    func share() throws {
        let world = World { $0.wordsAmong = 8 }
        takes(world)
        let first = try #require(witness(world, says(world)))
        for _ in 0..<4 { _ = says(world) }
        world.pass(seconds: 10)
        takes(world)
        #expect(witness(world, says(world, after: first)) == first)
        for _ in 0..<3 { takes(world) }
        #expect(world.reports[says(world, after: first)] == .gone)
    }

    @Test("a word under other settings is the first one")
    func otherSettings() throws {
        let world = World()
        takes(world)
        let first = try #require(witness(world, says(world)))
        world.pass(seconds: 10)
        world.limiter.reopen([ProjectNumber(1)])
        takes(world)
        let second = try #require(witness(world, says(world, after: first)))
        #expect(second.era != first.era)
        world.pass(seconds: 10)
        takes(world)
        #expect(world.reports[says(world, after: second)] == .gone)
    }

    @Test("words of a service that has taken nothing close it, one message asks, and one taken opens it")
    func closes() {
        let world = World()
        let jobs = (0..<6).map { _ in world.submit() }
        for _ in jobs { world.answer(.gone) }
        #expect(jobs.allSatisfy { witness(world, $0) != nil } && world.alarms == 1)
        var pauses: [TimeSpan] = []
        for _ in 0..<12 {
            let pause = world.delay(world.submit()) ?? .zero
            #expect(world.sent.isEmpty)
            pauses.append(pause)
            world.pass(seconds: UInt64(pause.seconds) + 1)
            let probe = world.submit()
            #expect(world.sent.map(\.job) == [probe])
            let other = world.submit()
            #expect(world.delay(other) != nil)
            world.answer(.gone)
        }
        #expect(pauses.last ?? .zero >= .seconds(300) && pauses.max() ?? .max <= .seconds(375))
        world.pass(seconds: 400)
        takes(world)
        let next = [world.submit(), world.submit()]
        #expect(world.sent.map(\.job) == next)
    }

    @Test("words of a service that has just taken messages close it later, and for some seconds at most")
    func closesProven() {
        let world = World()
        takes(world)
        for _ in 0..<15 { _ = says(world) }
        #expect(world.alarms == 0)
        _ = says(world)
        #expect(world.alarms == 1)
        for _ in 0..<8 {
            world.pass(seconds: 13)
            _ = says(world)
        }
        #expect(world.delay(world.submit()) ?? .max <= .milliseconds(12_500))
    }

    @Test("one device that is tried again and again closes nothing, and is tried once an hour at last")
    func oneDevice() {
        let world = World()
        var last: PushWitness?
        for tries in 0..<20 {
            let job = says(world, after: last, tries: tries)
            last = witness(world, job)
            #expect(last != nil)
            #expect(world.delay(job) ?? .max <= .seconds(4500))
            world.pass(seconds: 10)
        }
        let job = world.submit()
        #expect(world.sent.map(\.job) == [job] && world.alarms == 0)
    }

    #if DEBUG
        @Test("a planted bug believes the first word")
        func believed() {
            let world = World()
            world.limiter.planted = .believeWords
            #expect(world.reports[says(world)] == .gone)
        }
    #endif
}
