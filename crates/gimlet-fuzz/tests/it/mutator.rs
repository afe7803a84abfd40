//! A small mutator: from seeds and words to inputs that are nearly right. The same inputs in every run.

/// Longer inputs find nothing that shorter ones do not.
const LONGEST: usize = 4096;

pub(crate) struct InputMutator<'a> {
    seeds: &'a [Vec<u8>],
    words: &'a [&'a str],
    rng: XorshiftRng,
}

impl<'a> InputMutator<'a> {
    pub(crate) fn new(seeds: &'a [Vec<u8>], words: &'a [&'a str]) -> Self {
        Self { seeds, words, rng: XorshiftRng(0x9E37_79B9_7F4A_7C15) }
    }

    /// A seed after one to eight changes.
    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.pick_seed().to_vec();
        for _ in 0..=self.rng.below(8) {
            self.mutate_input(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn pick_seed(&mut self) -> &'a [u8] {
        &self.seeds[self.rng.below(self.seeds.len())]
    }

    fn mutate_input(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.below(input.len() + 1);
        let end = (at + self.rng.below(16)).min(input.len());
        match self.rng.below(6) {
            0 => drop(input.drain(at..end)),
            1 => {
                let copy = input[at..end].to_vec();
                let to = self.rng.below(input.len() + 1);
                drop(input.splice(to..to, copy));
            }
            2 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.rng.below(8);
                }
            }
            3 => input.insert(at, self.rng.below(256) as u8),
            4 => {
                let word = self.words[self.rng.below(self.words.len())].bytes();
                drop(input.splice(at..at, word));
            }
            // The end of another seed.
            _ => {
                let other = self.pick_seed();
                let from = self.rng.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
        }
    }
}

/// Numbers that look random and are not (xorshift64*).
struct XorshiftRng(u64);

impl XorshiftRng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        // On every system that is built for, a usize has at least 32 bits.
        number as usize % limit
    }
}
