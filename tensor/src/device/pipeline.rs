//! Shaders, each compiled once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::gpu::{Gpu, lock};
use super::windows;

/// A compute shader with the entry point `main`. Binding 0 is its parameters, at most 256 bytes of `u32` and `f32`. The buffers
/// that it writes come next, then those that it reads. Each buffer is declared on one line, in this order, and used only by its
/// name and an index: `windows` replaces `x[i]` by functions.
pub(crate) struct Shader<'a> {
    name: Cow<'a, str>,
    text: Box<dyn Fn() -> Cow<'static, str> + 'a>,
    author: Author,
}

/// The author of a shader's text, on which it depends whether the shader needs runtime checks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Author {
    /// This crate wrote the whole text.
    Crate,
    /// A part of the text is an expression of a caller.
    Caller,
}

impl<'a> Shader<'a> {
    /// Creates a shader with a name that no other text has. `text` is called once, when the shader is compiled.
    pub(crate) fn new<S: Into<Cow<'static, str>>>(name: impl Into<Cow<'a, str>>, text: impl Fn() -> S + 'a) -> Self {
        Shader { name: name.into(), text: Box::new(move || text().into()), author: Author::Crate }
    }

    /// Creates a shader whose text contains an expression of a caller. It is always compiled with runtime checks.
    pub(crate) fn of_caller<S: Into<Cow<'static, str>>>(name: impl Into<Cow<'a, str>>, text: impl Fn() -> S + 'a) -> Self {
        Shader { author: Author::Caller, ..Shader::new(name, text) }
    }

    /// Returns a shader whose text is this one's, changed by `adapt`.
    pub(crate) fn adapted(self, name: String, adapt: impl Fn(&str) -> String + 'a) -> Self {
        let author = self.author;
        Shader { author, ..Shader::new(name, move || adapt(&(self.text)())) }
    }

    /// Returns this shader with a constant defined before its text.
    pub(crate) fn with(self, constant: &'a str, value: bool) -> Self {
        let name = format!("{}, {constant} = {value}", self.name);
        self.adapted(name, move |text| format!("const {constant} = {value};\n{text}"))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the shader in `NAME.wgsl` next to the caller's file.
macro_rules! shader {
    ($name:literal) => {
        $crate::device::Shader::new($name, || include_str!(concat!($name, ".wgsl")))
    };
}
pub(crate) use shader;

/// The functions that all shaders may call.
const PRELUDE: &str = include_str!("prelude.wgsl");

/// Returns a shader's text after the prelude, with its directives first.
fn after_prelude(text: &str) -> String {
    let is_directive = |line: &&str| line.starts_with("enable ") || line.starts_with("diagnostic(");
    let (mut directives, text): (Vec<&str>, Vec<&str>) = text.lines().partition(is_directive);
    directives.sort_by_key(|line| line.starts_with("diagnostic("));
    [&directives.join("\n"), PRELUDE, &text.join("\n")].join("\n")
}

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) compiled: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
}

#[derive(Debug, Default)]
pub(super) struct Pipelines(HashMap<String, Arc<Pipeline>>);

#[cfg(test)]
impl Pipelines {
    pub(super) fn in_windows(&self) -> usize {
        self.0.keys().filter(|name| name.contains(" in windows ")).count()
    }
}

impl Gpu {
    /// Returns whether the driver accepts this shader, with these numbers of buffers to write and to read. Compiles it, but does
    /// not run it.
    pub(crate) fn takes(&self, shader: &Shader<'_>, writes: usize, reads: usize) -> bool {
        let scopes = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation].map(|what| self.device.push_error_scope(what));
        let compiled = panic::catch_unwind(AssertUnwindSafe(|| self.pipeline(shader, [&vec![1; writes], &vec![1; reads]])));
        let errors = scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop())).count();
        compiled.is_ok() && errors == 0
    }

    /// Returns this shader for buffers with these numbers of windows. It is compiled at its first use.
    pub(super) fn pipeline(&self, shader: &Shader<'_>, [writes, reads]: [&[usize]; 2]) -> Arc<Pipeline> {
        let mut pipelines = lock(&self.pipelines);
        let is_whole = writes.iter().chain(reads).all(|&windows| windows == 1);
        let name = match is_whole {
            true => Cow::Borrowed(shader.name()),
            false => format!("{} in windows {writes:?} {reads:?}", shader.name()).into(),
        };
        if let Some(pipeline) = pipelines.0.get(&*name) {
            return pipeline.clone();
        }
        let mut text = (shader.text)();
        if !is_whole {
            text = windows::rewritten(&text, &[writes, reads].concat(), self.window()).into();
        }
        let module = self.module(&name, &text, shader.author);
        let pipeline = Arc::new(self.compile(&name, &module, writes.iter().sum(), reads.iter().sum()));
        pipelines.0.insert(name.into_owned(), pipeline.clone());
        pipeline
    }

    /// Compiles a text, without wgpu's runtime checks if this crate wrote all of it.
    ///
    /// The checks clamp indices, bound loops, and define division by 0. No shader of this crate needs them:
    /// - A thread computes elements below the number in its parameters, which the host takes from the shape of a tensor. Positions
    ///   in a layout lie in its buffer, and a buffer is bound whole or in windows. Surplus threads return before any index.
    /// - Indices from data (ids, targets, lengths) are compared with the extents on the host before the dispatch. After a fault,
    ///   when a buffer may be too short or not filled, nothing is dispatched.
    /// - Reads past an edge are at an index that the text itself clamps.
    /// - Arrays in workgroup memory have the extents of the loops over them. They are written before they are read.
    /// - Loops count up to a parameter. Divisors are extents, which are at least 1 where there is an element.
    fn module(&self, name: &str, text: &str, author: Author) -> wgpu::ShaderModule {
        let source = wgpu::ShaderSource::Wgsl(after_prelude(text).into());
        let module = wgpu::ShaderModuleDescriptor { label: Some(name), source };
        if author == Author::Caller || self.checks {
            return self.device.create_shader_module(module);
        }
        // SAFETY: as above. `checked_and_unchecked_shaders_give_the_same_bits` runs the shaders both ways.
        unsafe { self.device.create_shader_module_trusted(module, wgpu::ShaderRuntimeChecks::unchecked()) }
    }

    fn compile(&self, name: &str, module: &wgpu::ShaderModule, writes: usize, reads: usize) -> Pipeline {
        let label = Some(name);
        let entry = |(binding, ty): (usize, wgpu::BufferBindingType)| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: binding == 0, min_binding_size: None },
            count: None,
        };
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let types = [vec![wgpu::BufferBindingType::Uniform], vec![storage(false); writes], vec![storage(true); reads]].concat();
        let entries: Vec<_> = types.into_iter().enumerate().map(entry).collect();
        let layout = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
        let all = wgpu::PipelineLayoutDescriptor { label, bind_group_layouts: &[Some(&layout)], immediate_size: 0 };
        let compiled = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&self.device.create_pipeline_layout(&all)),
            module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        Pipeline { compiled, layout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fresh;

    #[test]
    fn a_shader_that_fails_to_compile_is_not_a_device_fault() {
        let Some(gpu) = fresh() else { return };
        let head =
            "@group(0) @binding(0) var<uniform> p: vec4u;\n@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n";
        let shader = |name, body: &'static str| {
            Shader::new(name, move || format!("{head}@compute @workgroup_size(1)\nfn main() {{ {body} }}"))
        };
        assert!(gpu.takes(&shader("right", "y[0] = f32(p.x);"), 1, 0));
        assert!(!gpu.takes(&shader("wrong", "y[0] = p.x;"), 1, 0));
        assert_eq!(gpu.check(), Ok(()));
    }
}
