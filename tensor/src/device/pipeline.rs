//! Shaders, compiled once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::gpu::{Gpu, lock};

/// A compute shader. Its entry point is `main`. Binding 0 is its parameters, at most 256 bytes of `u32` and `f32`; then come the
/// buffers that it writes, then those that it reads.
pub(crate) struct Shader<'a> {
    name: Cow<'a, str>,
    text: Box<dyn Fn() -> Cow<'static, str> + 'a>,
}

impl<'a> Shader<'a> {
    /// By its name, which no other text has; `text` is made once, when it is compiled.
    pub(crate) fn new<S: Into<Cow<'static, str>>>(name: impl Into<Cow<'a, str>>, text: impl Fn() -> S + 'a) -> Self {
        Shader { name: name.into(), text: Box::new(move || text().into()) }
    }

    /// Another shader, whose text `adapt` makes of this one's.
    pub(crate) fn adapted(self, name: String, adapt: impl Fn(&str) -> String + 'a) -> Self {
        Shader::new(name, move || adapt(&(self.text)()))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The shader in `NAME.wgsl` beside the caller.
macro_rules! shader {
    ($name:literal) => {
        $crate::device::Shader::new($name, || include_str!(concat!($name, ".wgsl")))
    };
}
pub(crate) use shader;

/// What all shaders may call.
const PRELUDE: &str = include_str!("prelude.wgsl");

/// A shader's text with the prelude before it, and its directives, which come first.
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

impl Gpu {
    /// This shader, compiled at its first use, with so many buffers that it writes and reads.
    pub(super) fn pipeline(&self, shader: &Shader<'_>, writes: usize, reads: usize) -> Arc<Pipeline> {
        let mut pipelines = lock(&self.pipelines);
        if let Some(pipeline) = pipelines.0.get(shader.name()) {
            return pipeline.clone();
        }
        let pipeline = Arc::new(self.compile(shader, writes, reads));
        pipelines.0.insert(shader.name().to_owned(), pipeline.clone());
        pipeline
    }

    fn compile(&self, shader: &Shader<'_>, writes: usize, reads: usize) -> Pipeline {
        let label = Some(shader.name());
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label,
            source: wgpu::ShaderSource::Wgsl(after_prelude(&(shader.text)()).into()),
        });
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
            module: &module,
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
