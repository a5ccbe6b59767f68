extension SwarmDraw {
    /// What a run breaks: of each violation the guarantee and the first 24 characters, without numbers.
    public static func broken(_ options: Options) -> Set<String> {
        Set(
            ClusterSimulation(options).run().violations.map { violation in
                violation.guarantee + " " + violation.description.filter { !$0.isNumber }.prefix(24)
            })
    }

    /// A draw that still breaks one of the same guarantees, with as many plain traits as possible; the same
    /// draw if it breaks none. The search goes over the traits until none can be made plain or smaller, and
    /// calls `progress` with each smaller draw.
    public func shrunk(
        _ progress: (SwarmDraw) -> Void, by broken: (Options) -> Set<String> = SwarmDraw.broken
    ) -> SwarmDraw {
        let wanted = broken(options)
        guard !wanted.isEmpty else { return self }
        var draw = self
        var isSmaller = true
        while isSmaller {
            isSmaller = false
            for index in draw.traits.indices {
                for value in draw.smaller(index) {
                    let candidate = draw.with(index, value)
                    guard !broken(candidate.options).isDisjoint(with: wanted) else { continue }
                    draw = candidate
                    isSmaller = true
                    progress(draw)
                    break
                }
            }
        }
        return draw
    }

    /// Values of a trait that make a smaller draw, the smallest first: smaller numbers for a trait that sizes
    /// a run, the plain value for each other trait.
    private func smaller(_ index: Int) -> [UInt64] {
        let trait = traits[index]
        switch trait.name {
        case "nodes", "partitions", "loops", "devices", "topics", "seconds", "burst-size":
            return [1, trait.value / 2, trait.value - min(trait.value, 1)].filter {
                $0 > 0 && $0 < trait.value
            }
        default: return trait.isPlain ? [] : [trait.plain]
        }
    }
}
